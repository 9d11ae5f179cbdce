import { expect, test } from 'vitest';
import { Operator } from '../../src/lib/learning/operator.svelte';
import { confirmation } from '../../src/lib/ui/confirmation.svelte';
import { FakeApi, FakeOperatorApi, settle } from '../fake';

function open(isAllowed = true) {
  const service = new FakeApi();
  const api = new FakeOperatorApi(service);
  const operator = new Operator(
    api,
    isAllowed,
    () => api.versionState(),
    async () => {},
  );
  return { service, api, operator };
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
    since_at: null,
    until: null,
    reason: 'wrong',
    cause: { code: 'loss_rose' as const, figures: { since: 30 } },
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

test('a roll back stops learning unless the person unticks that, and going on is asked after it', async () => {
  const { service, operator } = open();
  const rolled = operator.switchTo('41', '42');
  await settle();
  expect(confirmation.request?.option?.checked).toBe(true);
  confirmation.request!.option!.checked = false;
  confirmation.settle(true);
  await rolled;
  expect([service.calls, operator.frozen]).toEqual([['roll back 41'], null]);

  await operator.freeze('wrong labels');
  const again = operator.switchTo('40', '41');
  await settle();
  expect(confirmation.request?.option).toBe(undefined); // it is stopped already
  confirmation.settle(true);
  await again;
  const resumed = operator.resume('40');
  await settle();
  expect(confirmation.request?.title).toBe('Resume learning?');
  confirmation.settle(false);
  await resumed;
  expect(operator.frozen?.reason).toBe('wrong labels');
  await operator.resume(null);
  expect(operator.frozen).toBe(null);
});

test('a caller without the scope never asks for quarantines', async () => {
  const { api, operator } = open(false);
  api.labels = [{ label: 'stable', version: '42', percent: 0 }];
  api.quarantines = () => Promise.reject(new Error('the caller lacks the scope'));
  await operator.refresh();
  expect([operator.labels.length, operator.quarantines]).toEqual([1, []]);
});

test('an older version is rolled back to, and a newer one gone forward to, only once confirmed', async () => {
  const { service, operator } = open();
  const answer = async (agrees: boolean) => {
    await settle();
    const { title } = confirmation.request!;
    confirmation.settle(agrees);
    return title;
  };
  const refused = operator.switchTo('41', '42');
  expect(await answer(false)).toBe('Roll back to version 41?');
  await refused;
  expect(service.calls).toEqual([]);
  const done = operator.switchTo('41', '42');
  await answer(true);
  await done;
  expect(service.calls).toEqual(['roll back 41']);
  expect(operator.frozen?.reason).toBe('rolled back to version 41');
  await operator.thaw();
  const forward = operator.switchTo('42', '41');
  expect(await answer(true)).toBe('Go forward to version 42?');
  await forward;
  expect(service.calls.at(-1)).toBe('roll back 42');
});
