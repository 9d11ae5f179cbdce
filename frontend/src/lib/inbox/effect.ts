/* What a decision about items is called, and what it does, in a sentence. */

import { t } from '../messages';
import { matterOf } from './matter';
import type { InboxGroup, InboxItem } from '../schema';
import { truncate } from '../ui/wording';

const MAX_CHARS = 80;
const MAX_WORDINGS = 5;
const MAX_SUGGESTIONS = 3;

const fold = (text: string) => text.toLowerCase().split(/\s+/).join(' ').trim();
const shorten = (text: string) => truncate(text, MAX_CHARS);

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

/** The texts that tell which replies are likely for a group: its most frequent wordings, and what people suggested most. */
export const wordsOf = ({ questions, items }: InboxGroup): string[] => [
  ...questions.slice(0, MAX_WORDINGS).map(({ text }) => text),
  ...suggestionsOf(items)
    .slice(0, MAX_SUGGESTIONS)
    .map(({ text }) => text),
];

/** How many different questions items are about. */
export const countQuestions = (items: readonly InboxItem[]) =>
  new Set(items.map(({ question, id }) => (question === null ? `\0${id}` : fold(question)))).size;

/** How many different replies were given. */
export const countAnswers = (items: readonly InboxItem[]) =>
  new Set(items.map(({ answered }) => answered?.id ?? null)).size;

const isHeld = ({ state }: InboxItem) => state === 'held';

/** What counts as one kind of item for the words about it. A new reply is a correction. */
const KINDS = ['correction', 'thumb_down', 'thumb_up'] as const;
type Kind = (typeof KINDS)[number];
const kindOf = (item: InboxItem) => (item.correction === null ? item.kind : 'correction');

/** The kinds that items have. held: those that wait. known: those that were learned already. */
const splitByKind = (items: readonly InboxItem[]) =>
  KINDS.map((kind) => {
    const own = items.filter((item) => kindOf(item) === kind);
    return { kind, held: own.filter(isHeld), known: own.filter((item) => !isHeld(item)) };
  }).filter(({ held, known }) => held.length + known.length > 0);

/**
 * What it does to approve items: a sentence for each kind.
 *
 * items: those that are decided about. chosen: one of several suggestions, which is taught for all of them.
 */
export function describeApproval(items: readonly InboxItem[], chosen: Suggestion | null = null): string[] {
  const words = t.inbox.approval;
  const suggestions = suggestionsOf(items);
  const [label] = items.flatMap(({ label }) => label ?? []);
  if (label !== undefined) return [words.examples(shorten(label), items.filter(isHeld).length)];
  if (suggestions.length > 1) {
    if (chosen === null) return [words.choose(suggestions.length)];
    const isOther = ({ correction }: InboxItem) => correction !== null && fold(correction) !== chosen.key;
    return [
      words.one(shorten(chosen.text), countQuestions(items)),
      ...describeDropped('other', items.filter(isOther)),
      ...describeKept(items.filter(({ correction }) => correction === null)),
    ];
  }
  const kinds = splitByKind(items);
  const [first] = kinds;
  if (first === undefined) return [words.kept];
  const isPlain = kinds.length === 1 && (first.held.length === 0 || first.known.length === 0);
  return isPlain ? [describeOnly(first.kind, items)] : describeKept(items);
}

/** The approval of items of one kind, all of which wait, or none. */
function describeOnly(kind: Kind, items: readonly InboxItem[]): string {
  const words = t.inbox.approval;
  const [questions, isNew] = [countQuestions(items), items.some(isHeld)];
  const [suggestion] = suggestionsOf(items);
  if (suggestion !== undefined)
    return isNew ? words.one(shorten(suggestion.text), questions) : words.keptReply(shorten(suggestion.text));
  if (kind === 'thumb_down') return isNew ? words.wrong(questions) : words.keptWrong(questions);
  return isNew ? words.right(questions) : words.kept;
}

/** What is learned of each kind, and what stays learned. */
const describeKept = (items: readonly InboxItem[]): string[] =>
  splitByKind(items).flatMap(({ kind, held, known }) => [
    ...(held.length > 0 ? [describeLearned(kind, held)] : []),
    ...(known.length > 0 ? [t.inbox.counted.stays(kind, known.length)] : []),
  ]);

function describeLearned(kind: Kind, held: readonly InboxItem[]): string {
  const { correction, thumb } = t.inbox.counted.learned;
  const [suggestion] = suggestionsOf(held);
  return suggestion
    ? correction(held.length, shorten(suggestion.text), countQuestions(held))
    : thumb(held.length, kind === 'thumb_up', countAnswers(held));
}

function describeDropped(kind: Kind | 'other', items: readonly InboxItem[]): string[] {
  const { notLearned, unlearned } = t.inbox.counted;
  const held = items.filter(isHeld).length;
  const known = items.length - held;
  return [...(held > 0 ? [notLearned(kind, held)] : []), ...(known > 0 ? [unlearned(kind, known)] : [])];
}

/** What it does to items to reject them. */
export function describeRejection(items: readonly InboxItem[]): string {
  const { wrong, other, examples } = t.inbox.rejection;
  const heldCount = items.filter(isHeld).length;
  const matter = matterOf(items);
  const state = heldCount === items.length ? 'notLearned' : heldCount === 0 ? 'unlearned' : 'partly';
  if (matter === 'examples') return examples;
  if (state === 'partly')
    return splitByKind(items)
      .flatMap(({ kind, held, known }) => describeDropped(kind, [...held, ...known]))
      .join(' ');
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
