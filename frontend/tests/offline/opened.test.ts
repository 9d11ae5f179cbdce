import { afterAll, expect, test, vi } from 'vitest';
import type { Api } from '../../src/lib/api/chat';
import { OpenedOffline } from '../../src/lib/offline/opened.svelte';
import { Connection } from '../../src/lib/ui/connection.svelte';
import type { Session } from '../../src/lib/ui/session.svelte';

vi.hoisted(() => {
  vi.stubGlobal('location', new URL('https://service/'));
  const refuse = () => Promise.reject(new DOMException('no storage', 'SecurityError'));
  vi.stubGlobal('caches', { has: refuse, open: refuse, delete: refuse, match: refuse });
});

afterAll(() => vi.unstubAllGlobals());

function open() {
  const connection = new Connection(
    async () => true,
    async () => {},
  );
  const session = { owner: 'ada', confirm: async () => {}, mayPredict: true } as unknown as Session;
  return OpenedOffline.open(connection, session);
}

test('where Cache Storage is refused, the chat is opened without the encoder', async () => {
  const opened = await open();
  await opened.openChat('chat', {} as Api);
  expect([opened.better?.stage, opened.chat?.name]).toEqual(['off', 'chat']);
});

test.each([false, true])(
  'signing out deletes the rest where Cache Storage is refused (chat opened: %s)',
  async (isChat) => {
    const opened = await open();
    if (isChat) await opened.openChat('chat', {} as Api);
    await opened.offline.remember('list', 'chat', ['a conversation']);
    await opened.forget('ada');
    expect(await opened.offline.recall('list', 'chat')).toBeNull();
  },
);

test('in a sandbox, which throws where Cache Storage is named, there is no encoder', async () => {
  Object.defineProperty(globalThis, 'caches', {
    configurable: true,
    get: () => {
      throw new DOMException('no storage', 'SecurityError');
    },
  });
  const opened = await open();
  await opened.openChat('chat', {} as Api);
  expect([opened.better, opened.chat?.name]).toEqual([null, 'chat']);
});
