import { expect, test, vi } from 'vitest';
import { MemoryStore, openStore } from '../../src/lib/offline/store';
import { openTabs } from '../../src/lib/offline/tabs';
import { named } from './scene.svelte';

const KEPT = {
  model: 'digits',
  version: '7',
  etag: '"7"',
  file: Uint8Array.of(7),
  kept_at: '2026-01-01',
};
const WAITING = {
  id: 'f1',
  model: 'digits',
  kind: 'name',
  title: 'star',
  of: null,
  made_at: '2026-01-01',
  state: 'waiting',
  maybeReceived: false,
  receipt: null,
  outcome: null,
  refusal: null,
} as const;

/** A browser that opens a database when the test says so. */
function openFactory() {
  const opening = {} as IDBOpenDBRequest;
  return { opening, factory: { open: () => opening } as unknown as IDBFactory };
}

const forever = () => new Promise<void>(() => {});
const atOnce = async () => {};

test('a database that does not open in time is replaced, and closed if it opens later', async () => {
  const { opening, factory } = openFactory();
  expect(await openStore(factory, atOnce)).toBeInstanceOf(MemoryStore);
  const close = vi.fn();
  Object.assign(opening, { result: { close } });
  opening.onsuccess!(new Event('success'));
  expect(close).toHaveBeenCalledTimes(1);
});

test.each(['onblocked', 'onerror'] as const)('a database is replaced after %s', async (event) => {
  const { opening, factory } = openFactory();
  const store = openStore(factory, forever);
  (opening[event] as (event: Event) => void)(new Event(event));
  expect(await store).toBeInstanceOf(MemoryStore);
});

test('a database that opens is used', async () => {
  const { opening, factory } = openFactory();
  const store = openStore(factory, forever);
  Object.assign(opening, { result: {} });
  opening.onsuccess!(new Event('success'));
  expect(await store).not.toBeInstanceOf(MemoryStore);
});

test('a browser without channels between its tabs has one tab', () => {
  vi.stubGlobal('BroadcastChannel', undefined);
  Reflect.deleteProperty(globalThis, 'BroadcastChannel');
  expect(() => openTabs().announce()).not.toThrow();
  vi.unstubAllGlobals();
});

test('models, answers and sent items expire with their owner, and what was not sent stays', async () => {
  const store = new MemoryStore();
  const [january, february, march] = ['2026-01-01', '2026-02-01', '2026-03-01'];
  const { body, example } = named('star');
  for (const owner of ['ada', 'bob']) {
    await store.expire(owner, owner === 'ada' ? january : february, '2025-12-01');
    await store.keepModel({ ...KEPT, owner });
    await store.keepAnswer({ owner, name: 'taught', value: owner });
  }
  await store.add({ ...WAITING, owner: 'ada', body, example });
  await store.add({ ...WAITING, id: 'f2', owner: 'ada', body, example, state: 'refused' });
  for (const owner of ['ada', 'bob']) await store.add({ ...WAITING, id: owner, owner, body, example, state: 'sent' });
  await store.expire('eve', march, february);
  expect([await store.model('ada', 'digits'), await store.answer('ada', 'taught')]).toEqual([null, null]);
  expect([(await store.model('bob', 'digits'))?.owner, await store.answer('bob', 'taught')]).toEqual(['bob', 'bob']);
  expect((await store.items()).map(({ id }) => id)).toEqual(['f1', 'f2', 'bob']);
});
