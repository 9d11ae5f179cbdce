/* Words why the service did something, from the code and the figures that it sends beside its English sentence. */

import { t } from '../messages';
import type { Cause } from '../schema';
import { bytes, count, percent } from './wording';

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
      return words.lossRoseBy(shown('since'), percent(Number(before)), percent(Number(after)), shown('window'));
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
      return wordLogCause(cause) ?? sentence;
  }
}

/** Words why an uploaded log was refused; null for another code. */
export function wordLogCause({ code, figures }: Cause): string | null {
  const words = t.reports.refused;
  const shown = (name: string) => count(Number(figures[name] ?? 0));
  const text = (name: string) => String(figures[name] ?? '');
  switch (code) {
    case 'log_empty':
      return words.empty;
    case 'log_too_large':
      return words.tooLarge(bytes(Number(figures['limit'])));
    case 'log_label_missing':
      return words.labelMissing;
    case 'log_column_missing':
      return words.columnMissing(text('column'), text('columns'));
    case 'log_column_twice':
      return words.columnTwice(text('column'));
    case 'log_column_unusable':
      return words.columnUnusable(text('column'));
    case 'log_lines_invalid':
      return wordLines(figures);
    case 'log_line_too_long':
      return words.lineTooLong(bytes(Number(figures['limit'])));
    case 'log_unpacks_too_large':
      return figures['limit'] === undefined
        ? words.unpacksTooFar(shown('ratio'))
        : words.unpacksTooLarge(bytes(Number(figures['limit'])));
    case 'log_unreadable':
      return words.unreadable;
    case 'log_cut_off':
      return words.cutOff;
    case 'log_without_rows':
      return words.withoutRows;
    case 'log_of_other_release':
      return words.otherRelease;
    case 'logs_waiting':
      return words.waiting(shown('count'));
    case 'upload_cut_off':
      return words.uploadCutOff;
    default:
      return null;
  }
}

/** "Line 2 is not JSON. 4 further lines cannot be used either." */
function wordLines(figures: Cause['figures']): string {
  const words = t.reports.refused;
  const line = Number(figures['line'] ?? 0);
  const problem = words.problems[String(figures['problem'])] ?? words.problems['other'] ?? '';
  const more = Number(figures['count'] ?? 1) - 1;
  const first = words.line(line === 0 ? null : count(line), problem);
  return more > 0 ? `${first} ${words.moreLines(more, count(more))}` : first;
}

const seconds = (pause: string | number | undefined) => count(Math.max(1, Math.round(Number(pause))));
