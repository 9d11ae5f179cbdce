import { expect, test } from 'vitest';
import { Operator } from '../../src/lib/learning/operator.svelte';
import { FakeApi, FakeOperatorApi } from '../fake';

function open(isAllowed = true) {
  const service = new FakeApi();
  const api = new FakeOperatorApi(service);
  return { service, api, operator: new Operator(api, isAllowed, async () => {}) };
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

test('an operation that fails is explained, and can be repeated', async () => {
  const { service, operator } = open();
  service.broken = 'the state folder is full';
  await operator.rollBack('41');
  expect([operator.problem, operator.busy]).toEqual(['the state folder is full', false]);
  service.broken = null;
  await operator.rollBack('41');
  expect(operator.problem).toBe(null);
});

test('a caller without the scope never asks for quarantines', async () => {
  const { api, operator } = open(false);
  api.labels = [{ label: 'stable', version: '42', percent: 0 }];
  api.quarantines = () => Promise.reject(new Error('the caller lacks the scope'));
  await operator.refresh();
  expect([operator.labels.length, operator.quarantines]).toEqual([1, []]);
});
