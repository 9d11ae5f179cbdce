import { expect, test } from 'vitest';
import { Conversations } from '../src/lib/conversations.svelte';
import { asMarkdown } from '../src/lib/exporting';
import type { ConversationKept, SaidKept, TurnKept } from '../src/lib/schema';
import { CANDIDATES, FakeApi, openAndAsk, openPage, settle } from './fake';

const turn = (id: string, reply: number | null, more: Partial<TurnKept> = {}): TurnKept => ({
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

const said = (id: string, more: Partial<SaidKept>): SaidKept => ({ id, status: 'learned', version: '41', ...more });

const keep = (id: string, ...turns: TurnKept[]): ConversationKept => ({
  id,
  title: 'When do you open?',
  created_at: '2026-11-20T10:00:00Z',
  updated_at: '2026-11-20T10:05:00Z',
  turns: turns.length,
  said: turns,
});

async function openKept(...turns: TurnKept[]) {
  const page = await openPage();
  page.api.kept.set('c', keep('c', ...turns));
  return page;
}

test('what was asked is kept in one conversation, and a new one gets an id of its own', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.ask('Can I print here?');
  await conversation.show(null);
  expect([conversation.exchanges, conversation.learnedCount]).toEqual([[], 0]);
  await conversation.ask('And copy?');
  expect(api.predicted.map((request) => request.conversation)).toEqual(['f0', 'f0', 'f1']);
});

test('a kept conversation comes back with its replies, the feedback given, and what became of it', async () => {
  const { conversation } = await openKept(
    turn('p1', 0, { feedback: [said('a', { reward: 0, reason: 'rude', comment: 'ouch' })] }),
    turn('p2', 1, { question: 'Can I print here?', feedback: [said('b', { correction: 'yes' })] }),
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
  expect([second!.taught, conversation.loading, conversation.learnedCount]).toEqual(['yes', false, 2]);
});

test('what was said before can be taken back', async () => {
  const { api, conversation } = await openKept(turn('p1', 0, { feedback: [said('a', { reward: 1 })] }));
  await conversation.show('c');
  api.fates.set('a', { id: 'a', offset: 30, status: 'learned' });
  await conversation.undo();
  expect([api.calls.includes('retract a'), conversation.last!.reward]).toEqual([true, null]);
});

test('feedback that was not learned when the page was left is followed again', async () => {
  const { api, conversation } = await openKept(turn('p1', 0, { feedback: [said('a', { status: 'accepted', reward: 1 })] }));
  api.fates.set('a', { id: 'a', offset: 30, status: 'accepted' });
  await conversation.show('c');
  expect(conversation.last!.latest!.steps).toEqual(['saved']);
  api.publish();
  await settle();
  expect(conversation.last!.latest!.steps[1]).toBe('learned in version 43, 61 ms later');
});

test('feedback that was refused says why, also after the page was opened again', async () => {
  const { api, conversation } = await openKept(turn('p1', 0, { feedback: [said('a', { status: 'refused', reward: 1 })] }));
  api.fates.set('a', { id: 'a', offset: 30, status: 'refused', reason: 'too many in a minute' });
  await conversation.show('c');
  await settle();
  expect(conversation.last!.latest!.steps).toEqual(['saved', 'not learned: too many in a minute']);
});

test('other replies to a question come back under it; the same question asked anew is one of its own', async () => {
  const { conversation } = await openKept(
    turn('p1', 0),
    turn('p2', 1, { besides: ['r0'] }),
    turn('p3', 0),
  );
  await conversation.show('c');
  expect(conversation.exchanges.map(({ turns }) => turns.map(({ id }) => id))).toEqual([['p1', 'p2'], ['p3']]);
  expect(conversation.exchanges[0]!.current.chips.map(({ id }) => id)).toEqual(['r2', 'r3', 'r4']);
});

test('a conversation that is gone says so, and what is asked then begins a new one', async () => {
  const { api, conversation } = await openPage();
  await conversation.show('gone');
  expect(conversation.problem).toMatch(/is not here/);
  await conversation.ask('When do you open?');
  expect(api.predicted[0]?.conversation).not.toBe('gone');
  expect(conversation.begun).toBe(true);
});

test('a conversation that comes too late does not mix with the one that is shown', async () => {
  const { api, conversation } = await openKept(turn('p1', 0));
  let come = () => {};
  const late = api.kept.get('c')!;
  api.conversation = () => new Promise((resolve) => (come = () => resolve(late)));
  const shown = conversation.show('c');
  await conversation.show(null);
  come();
  await shown;
  expect([conversation.exchanges, conversation.loading]).toEqual([[], false]);
});

test('the conversation that is shown is not asked for again', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.show(conversation.id);
  expect(api.calls.filter((call) => call.startsWith('conversation '))).toEqual([]);
  expect(conversation.exchanges.length).toBe(1);
});

function listOf(...titles: string[]) {
  const api = new FakeApi();
  for (const title of titles) api.kept.set(title, { ...keep(title), title });
  const pauses: (() => void)[] = [];
  const list = new Conversations(api, 'ada', () => new Promise((resolve) => pauses.push(resolve)));
  return { api, list, endPauses: () => pauses.forEach((end) => end()) };
}

test('a search waits until nobody types, and asks once', async () => {
  const { api, list, endPauses } = listOf('opening', 'printing');
  const typed = [list.search('p'), list.search('pr'), list.search('print ')];
  endPauses();
  await Promise.all(typed);
  expect(api.calls).toEqual(['conversations of ada with "print"']);
  expect(list.shown?.map(({ title }) => title)).toEqual(['printing']);
});

test('the answer of an earlier search does not overwrite a later one', async () => {
  const { api, list } = listOf('opening');
  let answer = () => {};
  const later = api.conversations.bind(api);
  api.conversations = () => new Promise((resolve) => (answer = () => resolve([])));
  const slow = list.refresh();
  api.conversations = later;
  await list.refresh();
  answer();
  await slow;
  expect(list.shown?.length).toBe(1);
});

test('a deleted conversation leaves the list; one that could not be deleted stays, with the reason', async () => {
  const { api, list } = listOf('opening', 'printing');
  expect(await list.delete('opening')).toBe(true);
  expect(list.shown?.map(({ title }) => title)).toEqual(['printing']);
  api.broken = 'the store does not answer';
  expect(await list.delete('printing')).toBe(false);
  expect([list.shown?.length, list.problem]).toEqual([1, 'the store does not answer']);
});

test('a conversation as Markdown has its questions, replies and what was thought of them', () => {
  const kept = keep(
    'c',
    turn('p1', 0, { feedback: [said('a', { reward: 0, reason: 'rude', comment: 'ouch' }), said('b', { correction: 'at ten' })] }),
    turn('p2', null, { question: null, besides: ['r0'] }),
  );
  expect(asMarkdown(kept)).toBe(
    [
      '# When do you open?',
      '2026-11-20T10:00:00Z',
      '**You:** When do you open?',
      '**Reply** (version 40): at nine',
      '- wrong reply; reason: rude; comment: ouch (learned in version 41)\n- taught: at ten (learned in version 41)',
      '**You:** (erased)',
      '**Another reply** (version 40): none',
      '',
    ].join('\n\n').trimEnd() + '\n',
  );
});
