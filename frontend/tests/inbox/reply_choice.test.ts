import { expect, test, vi } from 'vitest';
import { ReplyChoice } from '../../src/lib/inbox/reply_choice.svelte';
import type { ReplySummary } from '../../src/lib/schema';

const reply = (id: string) => ({ id, text: `The reply ${id}.` }) as ReplySummary;
const candidate = (id: string) => ({ id, text: `The reply ${id}.`, score: 0.5 });

function createChoice(given: string[] = []) {
  const ends: (() => void)[] = [];
  const api = {
    findReplies: vi.fn((words: string) => Promise.resolve([reply(words || 'first')])),
    likelyReplies: vi.fn(() => Promise.resolve(['a', 'b', 'c', 'd', 'e', 'f'].map(candidate))),
  };
  const choice = new ReplyChoice(api, () => new Promise((resolve) => ends.push(resolve)), given);
  return { api, choice, endPauses: () => ends.forEach((end) => end()) };
}

const ids = (choice: ReplyChoice) => choice.shown.map(({ id }) => id);

test('the likely replies are listed until words are typed, those that were given last', async () => {
  const { choice, endPauses } = createChoice(['a']);
  await choice.open(['Where?']);
  expect(ids(choice)).toEqual(['b', 'c', 'd', 'e', 'a']);
  const searched = choice.search('print');
  endPauses();
  await searched;
  expect([choice.showsLikely, ids(choice)]).toEqual([false, ['print']]);
});

test('without a question the first replies are listed', async () => {
  const { api, choice } = createChoice();
  await choice.open([]);
  expect([api.likelyReplies.mock.calls.length, ids(choice)]).toEqual([0, ['first']]);
});

test('replies that cannot be told likely can still be searched', async () => {
  const { api, choice } = createChoice();
  api.likelyReplies.mockRejectedValue(new Error('busy'));
  await choice.open(['Where?']);
  expect([ids(choice), choice.problem]).toEqual([['first'], null]);
});

test('only the words of the last pause in typing are searched', async () => {
  const { api, choice, endPauses } = createChoice();
  const typed = [choice.search('p'), choice.search('pr')];
  endPauses();
  await Promise.all(typed);
  expect(api.findReplies.mock.calls.map(([words]) => words)).toEqual(['pr']);
});

test('a search that fails says why, and what was found before stays', async () => {
  const { api, choice, endPauses } = createChoice();
  await choice.open([]);
  api.findReplies.mockRejectedValue(new Error('gone'));
  const searched = choice.search('x');
  endPauses();
  await searched;
  expect(choice.problem).not.toBeNull();
  expect(ids(choice)).toEqual(['first']);
});
