import { expect, test } from 'vitest';
import { Operator } from '../../src/lib/learning/operator.svelte';
import { FakeApi, FakeOperatorApi } from '../fake';

function open() {
  const api = new FakeOperatorApi(new FakeApi());
  const stored = new Map<string, string>();
  const keys = {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, key: string) => void stored.set(name, key),
  };
  return { api, operator: new Operator(api, keys, async () => {}) };
}

test('an operation is shown at once', async () => {
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

test('a required key is requested once, and then the action is done', async () => {
  const { api, operator } = open();
  api.requiredKey = 'sesame';
  await operator.freeze('an odd day');
  expect([operator.needsKey, operator.frozen, operator.problem]).toEqual([true, null, null]);
  await operator.submitKey('wrong');
  expect([operator.needsKey, operator.problem]).toEqual([true, 'this needs the admin key']);
  await operator.submitKey('sesame');
  expect([operator.needsKey, operator.frozen?.reason, operator.problem]).toEqual([
    false,
    'an odd day',
    null,
  ]);
  await operator.thaw();
  expect([operator.needsKey, operator.frozen]).toEqual([false, null]);
});

test('canceling the key request cancels the action', async () => {
  const { api, operator } = open();
  api.requiredKey = 'sesame';
  await operator.freeze('');
  operator.cancelKeyRequest();
  expect([operator.needsKey, operator.frozen, operator.problem]).toEqual([false, null, null]);
});

test('a quarantine is open until it is decided', async () => {
  const { api, operator } = open();
  const quarantine = {
    offset: 40,
    since: 30,
    until: null,
    reason: 'wrong',
    rolled_back_to: 7,
    created_at: '2026-11-21T09:00:00Z',
  };
  api.quarantined = [{ ...quarantine, ended_at: null, outcome: null }];
  await operator.refresh();
  expect(operator.open?.since).toBe(30);
  await operator.endQuarantine('dropped');
  expect([operator.open, operator.quarantines[0]?.outcome]).toEqual([null, 'dropped']);
});

test('without storage the key is requested each time', async () => {
  const api = new FakeOperatorApi(new FakeApi());
  const forbidden = {
    getItem: () => {
      throw new Error('forbidden');
    },
    setItem: () => {
      throw new Error('forbidden');
    },
  };
  const operator = new Operator(api, forbidden, async () => {});
  api.requiredKey = 'sesame';
  await operator.freeze('');
  await operator.submitKey('sesame');
  expect([operator.needsKey, operator.frozen !== null]).toEqual([false, true]);
  await operator.thaw();
  expect(operator.needsKey).toBe(true);
});
