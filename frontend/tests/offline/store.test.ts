import { expect, test, vi } from 'vitest';
import { MemoryStore, openStore } from '../../src/lib/offline/store';
import { openTabs } from '../../src/lib/offline/tabs';

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
