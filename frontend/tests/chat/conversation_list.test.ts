import { expect, test } from 'vitest';
import { groupByAge, StoredConversations } from '../../src/lib/chat/conversation_list.svelte';
import { toMarkdown } from '../../src/lib/chat/export';
import type { StoredConversation, StoredFeedback, StoredTurn } from '../../src/lib/schema';
import { CANDIDATES, FakeApi, FULL, openAndAsk, openPage, settle } from '../fake';

const turn = (id: string, reply: number | null, more: Partial<StoredTurn> = {}): StoredTurn => ({
  after: '',
  prediction_id: id,
  question: 'When do you open?',
  reply: reply === null ? null : CANDIDATES[reply]!,
  candidates: CANDIDATES,
  besides: [],
  model_version: '40',
  created_at: '2026-11-20T10:00:00Z',
  feedback: [],
  ...more,
});

const feedback = (id: string, more: Partial<StoredFeedback>): StoredFeedback => ({
  id,
  status: 'learned',
  version: '41',
  ...more,
});

const stored = (id: string, ...turns: StoredTurn[]): StoredConversation => ({
  id,
  title: 'When do you open?',
  created_at: '2026-11-20T10:00:00Z',
  updated_at: '2026-11-20T10:05:00Z',
  turns: turns.length,
  pinned: false,
  share_id: null,
  shared_at: null,
  said: turns,
});

async function openStored(...turns: StoredTurn[]) {
  const page = await openPage();
  page.api.stored.set('c', stored('c', ...turns));
  return page;
}

test('questions share one conversation id, and a new conversation has a new id', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.ask('Can I print here?');
  await conversation.show(null);
  expect([conversation.exchanges, conversation.learnedCount]).toEqual([[], 0]);
  await conversation.ask('And copy?');
  expect(api.predicted.map((request) => request.conversation)).toEqual(['f0', 'f0', 'f1']);
});

test('a stored conversation is restored with its replies and feedback', async () => {
  const { conversation } = await openStored(
    turn('p1', 0, { feedback: [feedback('a', { reward: 0, reason: 'rude', comment: 'ouch' })] }),
    turn('p2', 1, {
      question: 'Can I print here?',
      after: 'p1',
      feedback: [feedback('b', { correction: 'yes' })],
    }),
  );
  await conversation.show('c');
  const [first, second] = conversation.exchanges.map(({ current }) => current);
  expect([first!.reply?.text, first!.version, first!.reward, first!.reason, first!.comment]).toEqual([
    'at nine',
    '40',
    0,
    'rude',
    'ouch',
  ]);
  expect(first!.latest!.steps).toEqual(['saved', 'learned in version 41']);
  expect([second!.correctionText, conversation.loading, conversation.learnedCount]).toEqual(['yes', false, 2]);
});

test('stored feedback can be taken back', async () => {
  const { api, conversation } = await openStored(turn('p1', 0, { feedback: [feedback('a', { reward: 1 })] }));
  await conversation.show('c');
  api.progress.set('a', { id: 'a', offset: 30, status: 'learned' });
  await conversation.undo();
  expect([api.calls.includes('retract a'), conversation.last!.reward]).toEqual([true, null]);
});

test('stored feedback that is not learned yet is followed', async () => {
  const { api, conversation } = await openStored(
    turn('p1', 0, { feedback: [feedback('a', { status: 'accepted', reward: 1 })] }),
  );
  api.progress.set('a', { id: 'a', offset: 30, status: 'accepted' });
  await conversation.show('c');
  expect(conversation.last!.latest!.steps).toEqual(['saved']);
  api.publish();
  await settle();
  expect(conversation.last!.latest!.steps[1]).toBe('learned in version 43, 61 ms later');
});

test('refused feedback gives its reason after a reload', async () => {
  const { api, conversation } = await openStored(
    turn('p1', 0, { feedback: [feedback('a', { status: 'refused', reward: 1 })] }),
  );
  api.progress.set('a', { id: 'a', offset: 30, status: 'refused', reason: 'too many in a minute' });
  await conversation.show('c');
  await settle();
  expect(conversation.last!.latest!.steps).toEqual(['saved', 'not learned: too many in a minute']);
});

test('other replies are restored in their exchange, and a repeated question is its own exchange', async () => {
  const { conversation } = await openStored(
    turn('p1', 0),
    turn('p2', 1, { besides: ['r0'] }),
    turn('p3', 0, { after: 'p2' }),
  );
  await conversation.show('c');
  expect(conversation.exchanges.map(({ turns }) => turns.map(({ id }) => id))).toEqual([['p1', 'p2'], ['p3']]);
  expect(conversation.exchanges[0]!.current.chips.map(({ id }) => id)).toEqual(['r2', 'r3', 'r4']);
});

test('a deleted conversation gives an error, and the next question begins a new one', async () => {
  const { api, conversation } = await openPage();
  await conversation.show('gone');
  expect(conversation.problem).toMatch(/does not exist/);
  await conversation.ask('When do you open?');
  expect(api.predicted[0]?.conversation).not.toBe('gone');
  expect(conversation.hasStarted).toBe(true);
});

test('a conversation that loads late does not mix with the one shown', async () => {
  const { api, conversation } = await openStored(turn('p1', 0));
  let load = () => {};
  const late = api.stored.get('c')!;
  api.conversation = () => new Promise((resolve) => (load = () => resolve(late)));
  const shown = conversation.show('c');
  await conversation.show(null);
  load();
  await shown;
  expect([conversation.exchanges, conversation.loading]).toEqual([[], false]);
});

test('the conversation shown is not loaded again', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.show(conversation.id);
  expect(api.calls.filter((call) => call.startsWith('conversation '))).toEqual([]);
  expect(conversation.exchanges.length).toBe(1);
});

function listOf(...titles: string[]) {
  const api = new FakeApi();
  for (const title of titles) api.stored.set(title, { ...stored(title), title });
  const pauses: (() => void)[] = [];
  const list = new StoredConversations(api, () => new Promise((resolve) => pauses.push(resolve)));
  return { api, list, endPauses: () => pauses.forEach((end) => end()) };
}

test('a search waits for a pause in typing and sends one request', async () => {
  const { api, list, endPauses } = listOf('opening', 'printing');
  const typed = [list.search('p'), list.search('pr'), list.search('print ')];
  endPauses();
  await Promise.all(typed);
  expect(api.calls).toEqual(['conversations with "print"']);
  expect(list.shown?.map(({ title }) => title)).toEqual(['printing']);
});

test('the answer of an earlier search does not overwrite a later one', async () => {
  const { api, list } = listOf('opening');
  let answer = () => {};
  const later = api.conversations.bind(api);
  api.conversations = () => new Promise((resolve) => (answer = () => resolve({ conversations: [], next: null })));
  const slow = list.refresh();
  api.conversations = later;
  await list.refresh();
  answer();
  await slow;
  expect(list.shown?.length).toBe(1);
});

test('a deleted conversation leaves the list, and a failed deletion gives the reason', async () => {
  const { api, list } = listOf('opening', 'printing');
  expect(await list.delete('opening')).toBe(true);
  expect(list.shown?.map(({ title }) => title)).toEqual(['printing']);
  api.broken = 'the store does not answer';
  expect(await list.delete('printing')).toBe(false);
  expect([list.shown?.length, list.problem]).toEqual([1, FULL]);
});

test('a stored conversation with an edited question shows its newest branch, and keeps the other', async () => {
  const { api, conversation } = await openStored(
    turn('p1', 0),
    turn('p2', 1, { question: 'Can I print?', after: 'p1' }),
    turn('p3', 2, { question: 'Can I print?', after: 'p1', besides: ['r1'] }),
    turn('p4', 0, { question: 'Thanks', after: 'p3' }),
    turn('p5', 1, { question: 'Can I copy?', after: 'p1' }),
  );
  await conversation.show('c');
  const questions = () => conversation.exchanges.map(({ question }) => question);
  expect(questions()).toEqual(['When do you open?', 'Can I copy?']);
  conversation.showVersion(conversation.exchanges[1]!, -1);
  expect(questions()).toEqual(['When do you open?', 'Can I print?', 'Thanks']);
  expect(conversation.exchanges[1]!.turns.map(({ id }) => id)).toEqual(['p2', 'p3']);
  await conversation.ask('Bye');
  expect(api.predicted.at(-1)).toMatchObject({ after: 'p4', conversation: 'c' });
});

test('a conversation is renamed, pinned and shared, and the list is loaded again', async () => {
  const { api, list } = listOf('opening');
  await list.change('opening', { title: 'Hours' });
  await list.change('opening', { pinned: true });
  expect(await list.share('opening', 'p1')).toBe('shared-opening');
  expect(list.shown).toMatchObject([{ title: 'Hours', pinned: true, share_id: 'shared-opening' }]);
  await list.unshare('opening');
  expect(list.shown?.[0]?.share_id).toBeNull();
  api.broken = 'the disk is full';
  expect(await list.share('opening', null)).toBeNull();
  expect(list.problem).toBe(FULL);
});

test('a long list is shown page by page', async () => {
  const { api, list } = listOf('a', 'b', 'c');
  api.pageSize = 2;
  await list.refresh();
  expect([list.shown?.length, list.hasMore]).toEqual([2, true]);
  await list.showMore();
  expect([list.shown?.map(({ title }) => title), list.hasMore]).toEqual([['a', 'b', 'c'], false]);
});

test('a conversation with turns of both is listed once, as the service has it', async () => {
  const { api, list } = listOf('a', 'b', 'c');
  api.pageSize = 2;
  await list.refresh();
  const local = { ...stored('c'), title: 'begun here', isLocal: true };
  list.shown = [local, ...list.shown!];
  await list.showMore();
  expect(list.shown.map(({ id, title, isLocal }) => [id, title, isLocal ?? false])).toEqual([
    ['a', 'a', false],
    ['b', 'b', false],
    ['c', 'c', false],
  ]);
});

test('conversations are grouped by the day of their last question, pinned ones first', () => {
  const now = new Date(2026, 10, 21, 15);
  const at = (daysAgo: number) => new Date(2026, 10, 21 - daysAgo, 23).toISOString();
  const aged = (id: string, daysAgo: number, pinned = false) => ({
    ...stored(id),
    pinned,
    updated_at: at(daysAgo),
  });
  const list = [aged('p', 40, true), aged('a', 0), aged('b', 1), aged('c', 2), aged('d', 7)];
  const groups = groupByAge([...list, aged('e', 8), aged('f', 30), aged('g', 31)], now);
  expect(groups.map(({ name, conversations }) => [name, conversations.map(({ id }) => id).join('')])).toEqual([
    ['pinned', 'p'],
    ['today', 'a'],
    ['yesterday', 'b'],
    ['week', 'cd'],
    ['month', 'ef'],
    ['older', 'g'],
  ]);
});

test('a conversation as Markdown has its questions, replies and feedback', () => {
  const conversation = stored(
    'c',
    turn('p1', 0, {
      feedback: [
        feedback('a', { reward: 0, reason: 'rude', comment: 'ouch' }),
        feedback('b', { correction: 'at ten' }),
      ],
    }),
    turn('p2', null, { question: null, besides: ['r0'] }),
  );
  expect(toMarkdown(conversation)).toBe(
    [
      '# When do you open?',
      '2026-11-20T10:00:00Z',
      '**You:** When do you open?',
      '**Reply** (version 40): at nine',
      '- wrong reply; reason: rude; comment: ouch (learned in version 41)\n- taught: at ten (learned in version 41)',
      '**You:** (erased)',
      '**Another reply** (version 40): none',
      '',
    ]
      .join('\n\n')
      .trimEnd() + '\n',
  );
});
