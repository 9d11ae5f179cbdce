/* What a decision about items is called, and what it does, in a sentence. */

import { t } from '../messages';
import type { InboxItem } from '../schema';
import { truncate } from '../ui/wording';

const MAX_CHARS = 80;

const fold = (text: string) => text.toLowerCase().split(/\s+/).join(' ').trim();
const shorten = (text: string) => truncate(text, MAX_CHARS);

/** What items have in common: what is decided about them. */
export type Matter = 'wrong' | 'right' | 'reply' | 'examples' | 'mixed';

export function matterOf(items: readonly InboxItem[]): Matter {
  const isEvery = (kind: InboxItem['kind']) => items.every((item) => item.kind === kind);
  if (items.some(({ kind }) => kind === 'label')) return 'examples';
  if (items.some(({ correction }) => correction !== null)) return 'reply';
  if (items.length === 0) return 'mixed';
  return isEvery('thumb_down') ? 'wrong' : isEvery('thumb_up') ? 'right' : 'mixed';
}

/** A reply that people suggest. key: the same for texts that count as one. reply: its id, if it is in the repertoire. */
export interface Suggestion {
  key: string;
  text: string;
  reply: string | null;
  count: number;
}

/** The different suggestions, the most frequent first. */
export function suggestionsOf(items: readonly InboxItem[]): Suggestion[] {
  const found = new Map<string, Suggestion>();
  for (const { correction, reply } of items) {
    if (correction === null) continue;
    const key = fold(correction);
    const known = found.get(key);
    if (known) known.count += 1;
    else found.set(key, { key, text: correction, reply, count: 1 });
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}

/** How many different questions items are about. */
export const countQuestions = (items: readonly InboxItem[]) =>
  new Set(items.map(({ question, id }) => (question === null ? `\0${id}` : fold(question)))).size;

/** How many different replies were given. */
export const countAnswers = (items: readonly InboxItem[]) =>
  new Set(items.map(({ answered }) => answered?.id ?? null)).size;

const isHeld = ({ state }: InboxItem) => state === 'held';

/** items: those that are decided about. chosen: one of several suggestions, which is taught for all of them. */
export function describeApproval(
  items: readonly InboxItem[],
  chosen: Suggestion | null = null,
): string {
  const words = t.inbox.approval;
  const held = items.filter(isHeld);
  const questions = countQuestions(items);
  const suggestions = suggestionsOf(items);
  const alsoWrong = held.some(({ kind }) => kind === 'thumb_down') ? ` ${words.alsoWrong}` : '';
  const [label] = items.flatMap(({ label }) => label ?? []);
  if (label !== undefined) return words.examples(shorten(label), held.length);
  if (suggestions.length > 1)
    return chosen === null
      ? words.choose(suggestions.length)
      : words.chosen(shorten(chosen.text), questions) + alsoWrong;
  const [suggestion] = suggestions;
  const corrections = held.filter(({ correction }) => correction !== null);
  if (suggestion !== undefined)
    return corrections.length === 0
      ? words.keptReply(shorten(suggestion.text)) + alsoWrong
      : words.one(shorten(suggestion.text), countQuestions(corrections)) + alsoWrong;
  const isNew = held.length > 0;
  switch (matterOf(items)) {
    case 'wrong':
      return isNew ? words.wrong(questions) : words.keptWrong(questions);
    case 'right':
      return isNew ? words.right(questions) : words.kept;
    default:
      return isNew ? words.learned : words.kept;
  }
}

/** What it does to items to reject them. */
export function describeRejection(items: readonly InboxItem[]): string {
  const { wrong, other, examples } = t.inbox.rejection;
  const heldCount = items.filter(isHeld).length;
  const matter = matterOf(items);
  const state =
    heldCount === items.length ? 'notLearned' : heldCount === 0 ? 'unlearned' : 'partly';
  if (matter === 'examples') return examples;
  return matter === 'wrong' ? wrong[state](items.length) : other[state];
}

/** The names of the two decisions. */
export function namesOf(items: readonly InboxItem[]): { approve: string; reject: string } {
  const { approve, reject, agree, disagree, useReply, keepReply, isRight } = t.inbox.actions;
  const isOne = countAnswers(items) < 2;
  switch (matterOf(items)) {
    case 'wrong':
      return { approve: agree(isOne), reject: disagree(isOne) };
    case 'right':
      return { approve: isRight, reject };
    case 'reply':
      return { approve: items.some(isHeld) ? useReply : keepReply, reject };
    default:
      return { approve, reject };
  }
}
