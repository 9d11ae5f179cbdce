import { expect, test } from 'vitest';
import { createOfflineChatApi } from '../../src/lib/offline/chat_api';
import { LocalConversations, merge, type LocalTurn } from '../../src/lib/offline/conversations';
import { LocalModel } from '../../src/lib/offline/local_model.svelte';
import type { Offline } from '../../src/lib/offline/offline.svelte';
import { LocalReplies } from '../../src/lib/offline/replies';
import { ApiError, type Api } from '../../src/lib/api';
import { Conversation } from '../../src/lib/chat/conversation.svelte';
import { LiveStatus } from '../../src/lib/ui/live_status.svelte';
import { ALL_RIGHTS, FakeApi } from '../fake';
import { openBrowser } from './scene.svelte';

/** What a browser keeps. */
function openKept() {
  const values = new Map<string, unknown>();
  return {
    remember: async (name: string, model: string, value: unknown) =>
      void values.set(`${name} ${model}`, structuredClone(value)),
    recall: async <T>(name: string, model: string) =>
      structuredClone(values.get(`${name} ${model}`) ?? null) as T | null,
  };
}

const turn = (id: string, after = '', more: Partial<LocalTurn> = {}): LocalTurn => ({
  prediction_id: id,
  after,
  question: `question ${id}`,
  reply: null,
  candidates: [],
  besides: [],
  model_version: '1',
  created_at: `2026-11-26T12:00:0${id.slice(1)}Z`,
  feedback: [],
  isLocal: true,
  instance: `question ${id}`,
  known: null,
  opinion: null,
  ...more,
});

test('turns of this device make a conversation that is found by its words', async () => {
  const conversations = new LocalConversations(openKept(), 'chat');
  await Promise.all([
    conversations.add('c1', turn('l1')),
    conversations.add('c1', turn('l2', 'l1')),
    conversations.add('c2', turn('l3')),
  ]);
  const listed = await conversations.list('QUESTION L2');
  expect(listed.map(({ id, title, turns }) => [id, title, turns])).toEqual([
    ['c1', 'question l1', 2],
  ]);
  expect((await conversations.list('')).map(({ id }) => id)).toEqual(['c2', 'c1']);
});

test('the newest fifty conversations are kept', async () => {
  const conversations = new LocalConversations(openKept(), 'chat');
  for (let place = 0; place < 51; place += 1) await conversations.add(`c${place}`, turn('l1'));
  const listed = await conversations.list('');
  expect([listed.length, listed.at(-1)?.id]).toEqual([50, 'c1']);
});

test('turns of both are merged in the order in which they follow each other', async () => {
  const conversations = new LocalConversations(openKept(), 'chat');
  await conversations.add('c1', turn('l1', 's5', { known: 's5' })); // by a clock that is slow
  await conversations.noteFollowing('c1', 's6', 'l1');
  const local = (await conversations.find('c1'))!;
  const { said } = merge({ ...local, said: [turn('s5'), turn('s6', 's5')] }, local);
  expect(said.map(({ prediction_id, after }) => [prediction_id, after])).toEqual([
    ['s5', ''],
    ['l1', 's5'],
    ['s6', 'l1'],
  ]);
});

/** A chat whose service cannot be reached, and the page that is opened after a reload. */
async function openChat() {
  const { browser, queue } = await openBrowser();
  const kept = openKept();
  const service = new FakeApi();
  const unknown = () => Promise.reject(new ApiError('no such conversation', 404));
  const online = {
    status: () => service.status(),
    conversations: async () => ({ conversations: [], next: null }),
    conversation: unknown,
    changeConversation: unknown,
    deleteConversation: unknown,
  } as unknown as Api;
  const connection = { lost: true };
  let ids = 0;
  const open = async () => {
    const local = new LocalModel({
      model: 'chat',
      store: browser.store,
      queue,
      owner: () => 'ada',
      now: () => new Date('2026-11-26T12:00:00Z'),
      mayKeep: () => true,
      read: (file) => LocalReplies.read(file),
      api: { exported: async () => ({ file: FILE, etag: '"1"', version: '1' }) },
      isSimpler: () => true,
    });
    await local.load();
    if (local.version === null) await local.keep('1');
    const offline = { ...kept, queue, connection, newId: () => `l${++ids}` };
    return createOfflineChatApi(online, offline as unknown as Offline, local, async () => {});
  };
  const show = async () => {
    const api = await open();
    const live = new LiveStatus(service, () => new Promise(() => {}));
    const context = { api, live, newId: () => `i${++ids}`, rights: ALL_RIGHTS };
    return { api, conversation: new Conversation(context) };
  };
  return { connection, queue, show };
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
  expect(listed.conversations.map((one) => [one.title, one.isLocal])).toEqual([
    ['When do you open?', true],
  ]);
  await conversation.show(id);
  const { last } = conversation;
  expect([last?.question, last?.reply?.text, last?.isLocal]).toEqual([
    'When do you open?',
    'We open at nine.',
    true,
  ]);

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
  expect(queue.waiting.map((item) => [item.id, item.kind, item.body?.choice])).toEqual([
    ['f2', 'wrong', 'hours'],
  ]);
});
