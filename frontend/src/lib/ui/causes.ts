/* Words why the service did something, from the code and the figures that it sends beside its English sentence. */

import { t } from '../messages';
import type { Cause } from '../schema';
import { count, percent } from './wording';

/** sentence: of the service, for a code that is not known yet and for the words of an operator. */
export function wordCause(cause: Cause | null | undefined, sentence: string): string {
  if (!cause) return sentence;
  const { code, figures } = cause;
  const words = t.ui.causes;
  const shown = (name: string) => count(Number(figures[name] ?? 0));
  switch (code) {
    case 'guard':
      return words.guard(shown('since'));
    case 'loss_rose': {
      const { before, after } = figures;
      if (before === undefined || after === undefined) return words.lossRose(shown('since'));
      return words.lossRoseBy(
        shown('since'),
        percent(Number(before)),
        percent(Number(after)),
        shown('window'),
      );
    }
    case 'process_ended':
      return words.processEnded(String(figures['status']), seconds(figures['pause_s']));
    case 'process_not_started':
      return words.processNotStarted(String(figures['error']), seconds(figures['pause_s']));
    case 'log_ends_early':
      return words.logEndsEarly(shown('head'), shown('learned_until'));
    case 'log_has_other_events':
      return words.logHasOtherEvents(shown('learned_until'));
    default:
      return sentence;
  }
}

const seconds = (pause: string | number | undefined) =>
  count(Math.max(1, Math.round(Number(pause))));
