import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import type { ReplyQuery } from '../../src/lib/api/repertoire';
import { PAGE_SIZE, ReplyList, splitAtWords } from '../../src/lib/repertoire/reply_list.svelte';
import type { RepliesAnswer, ReplySummary } from '../../src/lib/schema';
import { settle } from '../fake';

const reply = (number: number): ReplySummary => ({
  ...{ id: `r${number}`, text: `Reply ${number}.`, active: true, offset: number, created_at: null },
  ...{ examples: 0, rated: 0, right: 0 },
});

/** A service whose answers come when the test lets them. */
class PagedApi {
  all = Array.from({ length: 120 }, (_, number) => reply(number));
  queries: ReplyQuery[] = [];
  signals: AbortSignal[] = [];
  broken = false;
  private waiting: (() => void)[] = [];

  replies(query: ReplyQuery, signal?: AbortSignal): Promise<RepliesAnswer> {
    this.queries.push(query);
    if (signal) this.signals.push(signal);
    return new Promise((resolve, reject) => {
      this.waiting.push(() => (this.broken ? reject(new ApiError('', 507)) : resolve(this.answer(query))));
      signal?.addEventListener('abort', () => reject(signal.reason as Error));
    });
  }

  private answer({ q = '', limit, after }: ReplyQuery): RepliesAnswer {
    const found = this.all.filter(({ text }) => text.includes(q));
    const from = after == null ? 0 : Number(after);
    const until = from + limit;
    return {
      replies: found.slice(from, until),
      next: until < found.length ? String(until) : null,
      found: found.length,
      counts: { all: this.all.length, given: this.all.length, retired: 0, never_right: 0 },
    };
  }

  async answerAll() {
    for (const answer of this.waiting.splice(0)) answer();
    await settle();
  }
}

function createList(pause: () => Promise<void> = () => Promise.resolve()) {
  const api = new PagedApi();
  return { api, list: new ReplyList(api, pause) };
}

const shownIds = ({ shown }: ReplyList) => shown?.map(({ id }) => id) ?? null;

async function openList() {
  const { api, list } = createList();
  void list.refresh();
  await api.answerAll();
  return { api, list };
}

test('a page at a time is asked for, and the next one goes on where the last one ended', async () => {
  const { api, list } = await openList();
  expect([list.shown?.length, list.found, list.left]).toEqual([PAGE_SIZE, 120, 70]);
  void list.showMore();
  await api.answerAll();
  expect([list.shown?.length, list.hasMore, list.left]).toEqual([100, true, 20]);
  void list.showMore();
  await api.answerAll();
  expect([list.shown?.length, list.hasMore]).toEqual([120, false]);
  await list.showMore();
  expect(api.queries.map(({ after }) => after)).toEqual([null, '50', '100']);
});

test('a refresh asks for as many as are shown, also when it comes before the next page', async () => {
  const { api, list } = await openList();
  void list.showMore();
  api.all = [reply(500), ...api.all];
  void list.refresh();
  await api.answerAll();
  expect([list.shown?.length, list.found, list.shown?.[0]?.id]).toEqual([100, 121, 'r500']);
  expect(api.queries.at(-1)).toMatchObject({ limit: 100, after: null });
});

test('a reply that moved to the next page is listed once', async () => {
  const { api, list } = await openList();
  api.all = [reply(500), ...api.all];
  void list.showMore();
  await api.answerAll();
  expect(new Set(shownIds(list)).size).toBe(list.shown?.length);
});

test('a newer search aborts the older one, whose answer is not shown', async () => {
  const { api, list } = await openList();
  void list.search('1');
  await settle();
  void list.search('11');
  await settle();
  const [, older, newer] = api.signals;
  expect([older?.aborted, newer?.aborted, list.searched]).toEqual([true, false, '']);
  await api.answerAll();
  expect([shownIds(list), list.searched]).toEqual([
    ['r11', ...Array.from({ length: 10 }, (_, n) => `r${110 + n}`)],
    '11',
  ]);
  expect(list.problem).toBe(null);
});

test('while somebody types, nothing is asked for', async () => {
  const pauses: (() => void)[] = [];
  const { api, list } = createList(() => new Promise((resolve) => pauses.push(resolve)));
  for (const words of ['1', '11', '111']) void list.search(words);
  await settle();
  expect(api.queries).toEqual([]);
  for (const end of pauses) end();
  await settle();
  expect(api.queries.map(({ q }) => q)).toEqual(['111']);
});

test('filters and orders are those of the service, and begin with the first page', async () => {
  const { api, list } = await openList();
  void list.showMore();
  await api.answerAll();
  void list.setOrder('by_text');
  void list.setFilter('never_right');
  void list.setOrder('listed');
  expect(api.queries.slice(2)).toEqual([
    { q: '', show: 'all', sort: 'by_text', limit: PAGE_SIZE, after: null },
    { q: '', show: 'never_right', sort: 'by_text', limit: PAGE_SIZE, after: null },
    { q: '', show: 'never_right', sort: 'most_rated', limit: PAGE_SIZE, after: null },
  ]);
  await api.answerAll();
  expect(list.shown?.length).toBe(PAGE_SIZE);
});

test('a failed request says so, keeps the list, and the next one takes the sentence away', async () => {
  const { api, list } = await openList();
  api.broken = true;
  void list.showMore();
  await api.answerAll();
  expect([list.problem === null, list.shown?.length]).toEqual([false, PAGE_SIZE]);
  api.broken = false;
  void list.refresh();
  await api.answerAll();
  expect([list.problem, list.shown?.length]).toEqual([null, 100]);
});

test.each([
  ['We open at nine.', '', ['We open at nine.']],
  ['We open at nine.', 'NINE we', ['', 'We', ' open at ', 'nine', '.']],
  ['Is it (free)?', '(free)? .*', ['Is it ', '(free)?', '']],
  ['The printers print.', 'print printer', ['The ', 'printer', 's ', 'print', '.']],
])('the words of a search are found in “%s”: %s', (text, words, parts) => {
  expect(splitAtWords(text, words)).toEqual(parts);
});
