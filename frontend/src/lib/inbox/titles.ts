/* How groups and decisions of the inbox are named. */

import { t } from '../messages';
import type { InboxDecision, InboxGroup, InboxItem } from '../schema';

/** The name that all items of a group give, or the question that most of them are about. */
export const titleOf = ({ label, questions, items }: InboxGroup): string =>
  label ?? questions[0]?.text ?? describeThumb(items[0]) ?? t.inbox.noQuestion;

/** What a thumb about a class judges: its answer is its name. */
function describeThumb(item: InboxItem | undefined): string | null {
  if (item?.answered == null || item.answered.id !== item.answered.text) return null;
  return t.inbox.judged(item.answered.text, item.kind === 'thumb_up');
}

/** What a decision was about. */
export function titleOfDecision({ added, questions, items }: InboxDecision): string {
  if (added != null) return added.replies[0] ?? t.inbox.noQuestion;
  const [first] = items;
  return first?.label ?? questions[0] ?? describeThumb(first) ?? t.inbox.noQuestion;
}

/** The 64 numbers of a drawing; null for anything else. */
export const drawingOf = ({ instance }: Pick<InboxItem, 'instance'>): number[] | null =>
  Array.isArray(instance) && instance.length === 64 && instance.every(Number.isFinite) ? (instance as number[]) : null;
