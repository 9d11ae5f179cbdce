import { expect, test } from 'vitest';
import type { LearningApi } from '../../src/lib/api';
import { Learning } from '../../src/lib/learning/learning.svelte';
import type { Curve, Drift, RefusedEvent } from '../../src/lib/schema';
import { FakeApi, FakeOperatorApi, NO_CURVE, settle } from '../fake';

class FakeLearningApi extends FakeApi implements LearningApi {
  alarms: Drift[] = [];
  refusals: RefusedEvent[] = [];
  outcomes: Curve = NO_CURVE;
  readonly operator = new FakeOperatorApi(this);

  async curve() {
    return this.outcomes;
  }

  async drift() {
    return this.alarms;
  }

  async refused() {
    return this.refusals;
  }
}

async function openLearning() {
  const api = new FakeLearningApi();
  let endPauses: (() => void)[] = [];
  const learning = new Learning(
    api,
    () => new Promise<void>((resolve) => endPauses.push(resolve)),
    true,
  );
  learning.start();
  api.connect();
  await settle();
  const rest = async () => {
    const now = endPauses;
    endPauses = [];
    for (const end of now) end();
    await settle();
  };
  await rest();
  await rest();
  return { api, learning, rest };
}

const alarm = { offset: 40, what: 'loss', label: null, projection: null, since: 30 } as Drift;

test('events refresh the figures without polling', async () => {
  const { api, learning, rest } = await openLearning();
  await rest();
  const before = api.calls.filter((call) => call === 'status').length;
  await rest();
  expect(api.calls.filter((call) => call === 'status').length).toBe(before);

  api.alarms = [alarm];
  api.publish();
  await settle();
  expect(learning.drift).toEqual([alarm]);
  expect(learning.live.version).toBe('43');
});

test('an outcome adds a point to the curve, drift a mark, and refused feedback a row', async () => {
  const { api, learning } = await openLearning();
  expect(learning.chart?.places).toEqual([]);
  const point = { began: null, ended: null, counts: { served: 1 }, sums: { served: 1 } };
  api.outcomes = { ...NO_CURVE, points: [{ ...point, until: 1, offset: 40 }] };
  api.alarms = [alarm];
  api.refusals = [
    { offset: 39, id: 'f', kind: 'label', label: 'a', reason: 'too long', created_at: null },
  ];
  api.publish();
  await settle();
  expect(learning.chart).toMatchObject({
    places: [1],
    lines: [{ values: [1] }],
    marks: [{ x: 1, name: 'drift: loss' }],
  });
  expect(learning.refused).toEqual(api.refusals);
});

test('a failed request gives an error and is repeated at the next event', async () => {
  const { api, learning, rest } = await openLearning();
  api.broken = 'the store does not answer';
  api.publish();
  await settle();
  await rest();
  expect(learning.problem).toBe('the store does not answer');

  api.broken = null;
  api.publish();
  await settle();
  await rest();
  expect([learning.status?.head, learning.problem]).toEqual([34, null]);
});

test('a failed rollback gives the reason', async () => {
  const { api, learning } = await openLearning();
  api.broken = 'version 40 was pruned';
  await learning.operator.rollBack('40');
  expect([learning.operator.problem, learning.live.version]).toEqual([
    'version 40 was pruned',
    '42',
  ]);
});
