import { expect, test } from 'vitest';
import { Operator } from '../src/lib/operator.svelte';
import { FakeApi, FakeOperatorApi } from './fake';

function open() {
  const api = new FakeOperatorApi(new FakeApi());
  const kept = new Map<string, string>();
  const keys = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, key: string) => void kept.set(name, key),
  };
  return { api, kept, operator: new Operator(api, keys, async () => {}) };
}

test('what is done shows at once', async () => {
  const { operator } = open();
  await operator.freeze('an odd day');
  expect(operator.frozen?.reason).toBe('an odd day');
  await operator.thaw();
  expect(operator.frozen).toBe(null);
  await operator.label('stable', '42');
  expect(operator.labels).toEqual([{ label: 'stable', version: '42', percent: 0 }]);
  await operator.unlabel('stable');
  expect([operator.labels, operator.problem]).toEqual([[], null]);
});

test('where the service wants a key it is asked for once, and what was to be done is done then', async () => {
  const { api, operator } = open();
  api.wanted = 'sesame';
  await operator.freeze('an odd day');
  expect([operator.wantsKey, operator.frozen, operator.problem]).toEqual([true, null, null]);
  await operator.withKey('wrong');
  expect([operator.wantsKey, operator.problem]).toEqual([true, 'this needs the admin key']);
  await operator.withKey('sesame');
  expect([operator.wantsKey, operator.frozen?.reason, operator.problem]).toEqual([false, 'an odd day', null]);
  await operator.thaw();
  expect([operator.wantsKey, operator.frozen]).toEqual([false, null]);
});

test('whoever has no key leaves it, and nothing is done', async () => {
  const { api, operator } = open();
  api.wanted = 'sesame';
  await operator.freeze('');
  operator.withoutKey();
  expect([operator.wantsKey, operator.frozen, operator.problem]).toEqual([false, null, null]);
});

test('a quarantine is open until somebody says what it is worth', async () => {
  const { api, operator } = open();
  const apart = { offset: 40, since: 30, until: null, reason: 'wrong', rolled_back_to: 7, created_at: '2026-11-21T09:00:00Z' };
  api.apart = [{ ...apart, ended_at: null, outcome: null }];
  await operator.look();
  expect(operator.open?.since).toBe(30);
  await operator.endQuarantine('dropped');
  expect([operator.open, operator.quarantines[0]?.outcome]).toEqual([null, 'dropped']);
});

test('where a browser keeps nothing, the key is asked for each time', async () => {
  const api = new FakeOperatorApi(new FakeApi());
  const forbidden = { getItem: () => { throw new Error('forbidden'); }, setItem: () => { throw new Error('forbidden'); } };
  const operator = new Operator(api, forbidden, async () => {});
  api.wanted = 'sesame';
  await operator.freeze('');
  await operator.withKey('sesame');
  expect([operator.wantsKey, operator.frozen !== null]).toEqual([false, true]);
  await operator.thaw();
  expect(operator.wantsKey).toBe(true);
});
