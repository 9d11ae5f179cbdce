/* What an approval does, in a sentence. */

import { t } from '../messages';
import type { InboxItem } from '../schema';

const MAX_CHARS = 80;

const fold = (text: string) => text.toLowerCase().split(/\s+/).join(' ').trim();
const shorten = (text: string) =>
  text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS - 1).trimEnd()}…`;

/** How many different questions items are about. */
export const countQuestions = (items: InboxItem[]) =>
  new Set(items.map(({ question, id }) => (question === null ? `\0${id}` : fold(question)))).size;

/** items: those that are decided about. Only what is held has an effect: the rest is learned already. */
export function describeApproval(items: InboxItem[]): string {
  const words = t.inbox.approval;
  const held = items.filter(({ state }) => state === 'held');
  const labels = held.flatMap(({ label }) => label ?? []);
  const corrections = held.filter(({ correction }) => correction !== null);
  const texts = new Map(corrections.map(({ correction }) => [fold(correction!), correction!]));
  const [first] = texts.values();
  const questions = countQuestions(corrections);
  if (held.length === 0) return words.nothing;
  if (labels[0] !== undefined) return words.examples(shorten(labels[0]), labels.length);
  if (held.every(({ kind }) => kind === 'thumb_up')) return words.right;
  if (first === undefined) return words.wrong;
  const taught =
    texts.size === 1 ? words.one(shorten(first), questions) : words.many(texts.size, questions);
  return corrections.length < held.length ? `${taught} ${words.alsoWrong}` : taught;
}
