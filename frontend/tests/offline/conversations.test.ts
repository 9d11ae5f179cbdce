import { expect, test } from 'vitest';
import { createOfflineChatApi } from '../../src/lib/offline/chat_api';
import { LocalConversations, merge, type LocalTurn } from '../../src/lib/offline/conversations';
import { LocalReplies } from '../../src/lib/offline/replies';
import { ApiError } from '../../src/lib/http';
import type { Api } from '../../src/lib/api/chat';
import { Conversation } from '../../src/lib/chat/conversation.svelte';
import type { ConversationSummary } from '../../src/lib/schema';
import { LiveStatus } from '../../src/lib/ui/live_status.svelte';
import { ALL_RIGHTS, FakeApi } from '../fake';
import { openOffline } from './scene.svelte';

/** The conversations that a browser keeps, and the caller whom the page speaks for. */
async function openKept() {
  const { offline, caller } = await openOffline();
  const open = () => new LocalConversations(offline.parts('conversation', 'chat'));
  return { conversations: open(), open, caller };
}

const turn = (id: string, after = '', more: Partial<LocalTurn> = {}): LocalTurn => ({
  prediction_id: id,
  after,
  question: `question ${id}`,
  reply: null,
  candidates: [],
  besides: [],
  model_version: '1',
  created_at: new Date(Date.UTC(2026, 10, 26, 12, 0, Number(id.slice(1)))).toISOString(),
  feedback: [],
  isLocal: true,
  instance: `question ${id}`,
  known: null,
  opinion: null,
  ...more,
});

test('turns of this device make a conversation that is found by its words', async () => {
  const { conversations } = await openKept();
  await Promise.all([
    conversations.add('ada', 'c1', turn('l1')),
    conversations.add('ada', 'c1', turn('l2', 'l1')),
    conversations.add('ada', 'c2', turn('l3')),
  ]);
  const listed = await conversations.list('ada', 'QUESTION L2');
  expect(listed.map(({ id, title, turns }) => [id, title, turns])).toEqual([['c1', 'question l1', 2]]);
  expect((await conversations.list('ada', '')).map(({ id }) => id)).toEqual(['c2', 'c1']);
});

test('the newest fifty conversations are kept, and those that are pinned', async () => {
  const { conversations } = await openKept();
  for (let place = 0; place < 53; place += 1) {
    await conversations.add('ada', `c${place}`, turn(`l${place}`));
    if (place === 1) await conversations.rename('ada', 'c1', { pinned: true });
  }
  const kept = (await conversations.list('ada', '')).map(({ id }) => id);
  expect([kept.length, kept[0], kept.slice(-2)]).toEqual([51, 'c52', ['c3', 'c1']]);
});

test('two tabs that answer at once keep the turns of both', async () => {
  const { conversations, open } = await openKept();
  const other = open();
  await Promise.all([
    conversations.add('ada', 'c1', turn('l1')),
    other.add('ada', 'c1', turn('l2', 'l1')),
    other.add('ada', 'c2', turn('l3')),
    conversations.noteOpinion('ada', 'c1', 'l1', 'f1'),
  ]);
  const { said } = (await conversations.find('ada', 'c1'))!;
  expect(said.map(({ prediction_id, opinion }) => [prediction_id, opinion])).toEqual([
    ['l1', 'f1'],
    ['l2', null],
  ]);
  expect((await other.list('ada', '')).length).toBe(2);
});

test('a turn of one account is not kept once the page speaks for another', async () => {
  const { conversations, caller } = await openKept();
  await conversations.add('ada', 'c1', turn('l1'));
  caller.owner = 'bob';
  await conversations.add('ada', 'c2', turn('l2'));
  await conversations.rename('ada', 'c1', { title: 'Hours' });
  expect(await conversations.list('bob', '')).toEqual([]);
  const titles = (await conversations.list('ada', '')).map(({ title }) => title);
  expect(titles).toEqual(['question l1']);
  expect(await conversations.list(null, '')).toEqual([]);
});

test('turns of both are merged in the order in which they follow each other', async () => {
  const { conversations } = await openKept();
  await conversations.add('ada', 'c1', turn('l1', 's5', { known: 's5' })); // by a clock that is slow
  await conversations.noteFollowing('ada', 'c1', 's6', 'l1');
  const local = (await conversations.find('ada', 'c1'))!;
  const { said } = merge({ ...local, said: [turn('s5'), turn('s6', 's5')] }, local);
  expect(said.map(({ prediction_id, after }) => [prediction_id, after])).toEqual([
    ['s5', ''],
    ['l1', 's5'],
    ['s6', 'l1'],
  ]);
});

/** A chat whose service cannot be reached, and the page that is opened after a reload. */
async function openChat() {
  const { offline, caller, connection } = await openOffline();
  connection.lost = true;
  const service = new FakeApi();
  const stored = { conversations: [] as ConversationSummary[], onList: () => {} };
  const request = () =>
    Promise.reject(connection.lost ? new ApiError('no answer') : new ApiError('no such conversation', 404));
  const online = {
    status: () => service.status(),
    predict: async () => ({
      predictions: [{ reply: null, candidates: [] }],
      prediction_ids: ['s1'],
      model_version: '1',
    }),
    conversations: async () => {
      stored.onList();
      return { conversations: stored.conversations, next: null };
    },
    conversation: request,
    changeConversation: request,
    deleteConversation: request,
  } as unknown as Api;
  let ids = 0;
  const open = async () => {
    const local = await offline.openModel({
      model: 'chat',
      mayKeep: () => true,
      read: (file) => LocalReplies.read(file),
      api: { exported: async () => ({ file: FILE, etag: '"1"', version: '1' }) },
      isSimpler: () => true,
    });
    if (local.version === null) await local.keep('1');
    return createOfflineChatApi(online, offline, local, async () => {});
  };
  const show = async () => {
    const api = await open();
    const live = new LiveStatus(service, () => new Promise(() => {}));
    const context = { api, live, newId: () => `i${++ids}`, rights: ALL_RIGHTS };
    return { api, conversation: new Conversation(context) };
  };
  return { connection, caller, stored, queue: offline.queue, show };
}

const FILE = new TextEncoder().encode(
  JSON.stringify({
    format: 1,
    replies: [{ id: 'hours', text: 'We open at nine.', examples: ['When do you open?'] }],
  }),
);

test('a conversation with this device is listed and shown after a reload', async () => {
  const { show, connection } = await openChat();
  const before = await show();
  await before.conversation.ask('When do you open?');
  const { id } = before.conversation;

  const { api, conversation } = await show();
  const listed = await api.conversations('');
  expect(listed.conversations.map((one) => [one.title, one.isLocal])).toEqual([['When do you open?', true]]);
  await conversation.show(id);
  const { last } = conversation;
  expect([last?.question, last?.reply?.text, last?.isLocal]).toEqual(['When do you open?', 'We open at nine.', true]);

  connection.lost = false; // the service does not know it
  expect((await api.conversation(id)).said.length).toBe(1);
  await api.changeConversation(id, { title: 'Hours' });
  expect((await api.conversations('')).conversations[0]?.title).toBe('Hours');
  await api.deleteConversation(id);
  expect((await api.conversations('')).conversations).toEqual([]);
  await expect(api.conversation(id)).rejects.toThrow(ApiError);
});

test('an opinion about an answer of an earlier visit takes the place of the one before', async () => {
  const { show, queue } = await openChat();
  const before = await show();
  await before.conversation.ask('When do you open?');
  const { id } = before.conversation.last!;
  await before.api.giveFeedback({ id: 'f1', prediction_id: id, reward: 1 });

  const { api } = await show();
  await api.conversation(before.conversation.id);
  await api.giveFeedback({ id: 'f2', prediction_id: id, reward: 0 });
  expect(queue.waiting.map((item) => [item.id, item.kind, item.body?.choice])).toEqual([['f2', 'wrong', 'hours']]);
});

test('a question right after a thumb is answered by what it has taught', async () => {
  const { show } = await openChat();
  const { api, conversation } = await show();
  await conversation.ask('When do you open?');
  const { id } = conversation.last!;
  const ask = async () => {
    const { predictions } = await api.predict({ instances: ['When do you open?'], record: false });
    return predictions[0]!.reply?.text ?? null;
  };
  expect(await ask()).toBe('We open at nine.');
  void api.giveFeedback({ id: 'f1', prediction_id: id, reward: 0 });
  expect(await ask()).toBe(null);
  void api.retract('f1');
  expect(await ask()).toBe('We open at nine.');
});

test('without the service, a conversation of this browser alone is renamed and deleted', async () => {
  const { show } = await openChat();
  const { api, conversation } = await show();
  await conversation.ask('When do you open?');
  await api.changeConversation(conversation.id, { title: 'Hours' });
  expect((await api.conversations('')).conversations.map(({ title }) => title)).toEqual(['Hours']);
  await api.deleteConversation(conversation.id);
  await expect(api.conversations('')).rejects.toThrow(ApiError);
});

test('without the service, a conversation with turns of both stays as it is', async () => {
  const { show, connection } = await openChat();
  const { api, conversation } = await show();
  await conversation.ask('When do you open?');
  connection.lost = false;
  await conversation.ask('And on Sundays?'); // the service answers
  connection.lost = true;
  const { id } = conversation;
  await expect(api.changeConversation(id, { title: 'Hours' })).rejects.toThrow('no answer');
  await expect(api.deleteConversation(id)).rejects.toThrow('no answer');
  const { conversations } = await api.conversations('');
  expect(conversations.map(({ title }) => title)).toEqual(['When do you open?']);
});

test.each(['after the answer', 'during the request'])(
  'what the service listed for one account is not shown to another that signs in: %s',
  async (moment) => {
    const { show, connection, caller, stored } = await openChat();
    connection.lost = false;
    stored.conversations = [{ id: 'c1', updated_at: '2026-11-26T12:00:00Z' } as ConversationSummary];
    if (moment === 'during the request') stored.onList = () => (caller.owner = 'bob');
    const { api } = await show();
    await api.conversations('');
    caller.owner = 'bob';
    connection.lost = true;
    await expect(api.conversations('')).rejects.toThrow(ApiError);
  },
);
