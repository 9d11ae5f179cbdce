/* Words a stored alert from its event and figures, as the verdict of the page: pure functions. */

import { t } from '../messages';
import type { Health, HealthReason, SentAlert } from '../schema';
import { capitalize } from '../ui/wording';
import { NO_PLACES, type Places } from './places';
import { wordReason } from './verdict';

/** null: only the English sentence of the service says it. health: of the model now, which says what is measured. */
export function wordAlert(
  { event, figures }: SentAlert,
  health: Health | null,
  places: Places = NO_PLACES,
): string | null {
  if (!health) return null;
  const word = (code: string, figures: unknown) =>
    wordReason({ code, sentence: '', figures } as HealthReason, health, places);
  const words = t.learning.verdict;
  const { status, reasons, rolled_back_to: version, state } = figures as Record<string, unknown>;
  switch (event) {
    case 'verdict': {
      if (typeof status !== 'string' || !(status in words.status)) return null;
      const title = words.status[status as Health['status']];
      if (status !== 'needs_attention' && status !== 'not_learning') return `${title}.`;
      const first = (reasons as HealthReason[] | undefined)?.[0];
      const said = first ? word(first.code, first) : '';
      return said === '.' ? null : said ? `${title}: ${said}` : `${title}.`;
    }
    case 'rollback':
      return `${capitalize(t.learning.chart.guardRolledBack(String(version)))}.`;
    case 'drift':
      return capitalize(word('drift', figures));
    case 'learner':
      return state === 'running' ? t.usage.alerts.learnerRuns : capitalize(words.learnerStopped);
    default:
      return null;
  }
}
