import { minute } from '../../src/lib/ui/wording';
import { expect, test } from 'vitest';
import type { LearningApi } from '../../src/lib/api/learning';
import { Learning } from '../../src/lib/learning/learning.svelte';
import type { Curve, Drift, DriftChange, Health, Refusals } from '../../src/lib/schema';
import { FakeApi, FakeOperatorApi, NO_CURVE, settle } from '../fake';

const HEALTHY: Health = {
  status: 'good',
  sentence: 'Good: 94 % of the last 100 judged answers were right.',
  reasons: [],
  measure: 'right',
  recent: { count: 100, mean: 0.94, offset: 34 },
  lifetime: { count: 300, mean: 0.9, offset: 0 },
  ratings: { rated: 280, good: 260, bad: 20 },
  guessers: { no_change: 0.5, majority: 0.6 },
  guesser_counts: { no_change: 100, majority: 100 },
  trend: [],
  last_roll_back: null,
  version: '42',
  newest_version: '42',
  learned_until: 34,
  head: 34,
  counted_until: 34,
};

class FakeLearningApi extends FakeApi implements LearningApi {
  drifts: DriftChange[] = [];
  verdict: Health = HEALTHY;
  refusals: Refusals = { count: 0, groups: [], refused: [] };
  outcomes: Curve = NO_CURVE;
  numbers = new Map<number, number>();
  readonly operator = new FakeOperatorApi(this);

  async curve() {
    return this.outcomes;
  }

  async judgedUntil(offsets: readonly number[]) {
    this.calls.push(`judged until ${offsets.join(', ')}`);
    return offsets.map((offset) => this.numbers.get(offset) ?? null);
  }

  async health() {
    return this.verdict;
  }

  async driftChanges() {
    return this.drifts;
  }

  async versionPage() {
    const versions = await this.versions();
    const { labels, frozen, refused } = await this.operator.versionState();
    return {
      versions,
      version_count: 1,
      next_before: null,
      live_version: versions[0]!.version,
      labels,
      frozen,
      refused,
    };
  }

  async changes(version: string, since: string | null) {
    this.calls.push(`changes ${since} ${version}`);
    return {
      version,
      since: since ?? '30',
      questions: 2,
      unchanged: 2,
      better: 0,
      worse: 0,
      changes: [],
    };
  }

  async refused() {
    return this.refusals;
  }
}

async function openLearning() {
  const api = new FakeLearningApi();
  let endPauses: (() => void)[] = [];
  const learning = new Learning(api, () => new Promise<void>((resolve) => endPauses.push(resolve)), {
    mayOperate: true,
    mayCurate: true,
  });
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

const FELL: Health = {
  ...HEALTHY,
  status: 'needs_attention',
  reasons: [
    {
      code: 'accuracy_fell',
      level: 'attention',
      sentence: 'it fell',
      figures: { before: 0.94, after: 0.03, count: 100, since: 900, roll_back_to: '41' },
    },
    { code: 'unheard_of', level: 'notice', sentence: 'something new', figures: {} },
  ],
};

const alarm = { offset: 40, what: 'loss', label: null, projection: null, since: 30 } as Drift;
const change = { since: 30, offset: 40, alarms: [alarm] } as unknown as DriftChange;

test('events refresh the figures without polling', async () => {
  const { api, learning, rest } = await openLearning();
  await rest();
  const before = api.calls.filter((call) => call === 'status').length;
  await rest();
  expect(api.calls.filter((call) => call === 'status').length).toBe(before);

  api.drifts = [change];
  api.publish();
  await settle();
  expect(learning.changes).toEqual([change]);
  expect(learning.live.version).toBe('43');
});

test('feedback that arrives refreshes the figures while nothing is learned', async () => {
  const { api, learning, rest } = await openLearning();
  await rest();
  api.outcomes = { ...NO_CURVE, feedback: 25 };
  api.receive();
  await settle();
  expect(learning.curve?.feedback).toBe(25);
  expect(learning.live.version).toBe('42');
});

test('a begin has the exact number of the service, or none, and never another', async () => {
  const { api, learning, rest } = await openLearning();
  const ended = '2026-11-21T04:00:00';
  const point = { until: 1_100, offset: 1_100, began: ended, ended, sums: {} };
  api.verdict = FELL;
  api.outcomes = {
    ...NO_CURVE,
    counted_until: 1_100,
    points: [{ ...point, counts: { served: 450 } }],
  };
  const calls = () => api.calls.filter((call) => call.startsWith('judged until'));
  const refresh = async () => {
    await rest();
    api.receive();
    await settle();
    return learning.verdict?.sentence;
  };
  expect(await refresh()).not.toMatch(/judged answer \d/); // the service has not counted it yet
  await settle();
  expect(calls()).toEqual(['judged until 900']);

  api.numbers.set(900, 448);
  await refresh();
  await settle();
  expect(learning.verdict?.sentence).toMatch(/\(judged answer 449\)/);
  await refresh();
  expect(learning.verdict?.sentence).toMatch(/\(judged answer 449\)/);
  expect(learning.chart?.marks).toContainEqual(expect.objectContaining({ x: 449 }));
  expect(calls()).toHaveLength(2); // what is known is not asked again
});

test('an outcome adds a point to the curve, drift a mark, and refused feedback a row', async () => {
  const { api, learning } = await openLearning();
  expect(learning.chart?.places).toEqual([]);
  const point = { began: null, ended: null, counts: { served: 1 }, sums: { served: 1 } };
  api.outcomes = { ...NO_CURVE, points: [{ ...point, until: 1, offset: 40 }] };
  api.drifts = [change];
  api.refusals = {
    count: 1,
    groups: [{ reason: 'too long', count: 1, first_offset: 39, last_offset: 39 }],
    refused: [{ offset: 39, id: 'f', kind: 'label', label: 'a', reason: 'too long', created_at: null }],
  };
  api.publish();
  await settle();
  expect(learning.chart).toMatchObject({
    places: [1],
    lines: [{ values: [1] }],
    marks: [{ x: 1, name: 'alarm: errors became more frequent' }],
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
  expect([learning.operator.problem, learning.live.version]).toEqual(['version 40 was pruned', '42']);
});

test('the verdict is worded with its figures, and offers the version from before', async () => {
  const { api, learning } = await openLearning();
  expect(learning.verdict).toMatchObject({ tone: 'good', title: 'Good', rollBackTo: null });
  expect(learning.verdict?.sentence).toBe('94\u00a0% of the last 100 judged answers were right.');
  api.verdict = FELL;
  api.publish();
  await settle();
  expect(learning.verdict).toEqual({
    tone: 'danger',
    title: 'Needs attention',
    sentence: 'since event 901, only 3 of the last 100 judged answers were right; before, 94\u00a0%.',
    others: ['Something new.'],
    isDeclining: false,
    isRecovering: false,
    rollBackTo: '41',
    mayFreeze: true,
    rolledBackTo: null,
  });
});

test('the chart marks a roll back where it was, and not what its version had learned', async () => {
  const { api, learning } = await openLearning();
  const point = { began: null, ended: null, sums: { served: 50 } };
  const points = [800, 850, 900, 950, 980].map((offset, at) => ({
    ...point,
    until: offset,
    offset,
    counts: { served: [800, 50, 50, 50, 30][at]! },
  }));
  api.outcomes = { ...NO_CURVE, points };
  const figures = { version: '41', newest: '57', since: 950 };
  const reason = { code: 'rolled_back', level: 'notice' as const, sentence: '', figures };
  api.verdict = { ...FELL, status: 'good', version: '41', reasons: [reason] };
  api.publish();
  await settle();
  expect(learning.chart?.marks.find(({ isTick }) => !isTick)).toMatchObject({
    x: 950,
    name: 'version 41 answers again',
  });
});

const quarantineOf = (offset: number) => ({
  offset,
  since: 900,
  since_at: null,
  until: offset,
  reason: 'wrong',
  cause: { code: 'loss_rose' as const, figures: { since: 900 } },
  rolled_back_to: 41,
  created_at: '2026-11-21T09:00:00Z',
  ended_at: '2026-11-21T09:05:00Z',
  outcome: 'dropped' as const,
});

test('the chart keeps the mark of a roll back when a newer version answers again', async () => {
  const { api, learning, rest } = await openLearning();
  const point = { began: null, ended: null, counts: { served: 50 }, sums: { served: 50 } };
  api.outcomes = {
    ...NO_CURVE,
    counted_until: 980,
    points: [900, 950, 980].map((offset) => ({ ...point, until: offset, offset })),
  };
  api.verdict = { ...FELL, last_roll_back: { version: '41', since: 950, judged: null } };
  api.publish();
  await settle();
  const marks = learning.chart?.marks.filter(({ isTick }) => !isTick);
  expect(marks).toEqual([
    expect.objectContaining({ name: 'the fall begins' }),
    expect.objectContaining({ x: 100, name: 'rolled back to version 41' }),
  ]);

  api.numbers.set(955, 103).set(956, 103);
  api.operator.quarantined = [quarantineOf(955)]; // the guard's own mark says it
  api.publish();
  await settle();
  await rest();
  expect(learning.chart?.marks.length).toBeGreaterThan(0); // the place of the mark is asked for
  await settle();
  const names = learning.chart?.marks.map(({ name }) => name);
  expect(names).toContain('the guard rolled back to version 41');
  expect(names).not.toContain('rolled back to version 41');
});

test('a version has not learned what came after it was made', async () => {
  const { api, learning } = await openLearning();
  const [began, made, ended] = ['2026-05-01T11:36:00Z', '2026-05-01T11:37:00Z', '2026-05-01T11:40:00Z'];
  const point = { began, ended, until: 960, offset: 960 };
  const points = [{ ...point, counts: { served: 960 }, sums: {} }];
  api.outcomes = { ...NO_CURVE, counted_until: 960, points };
  api.publish();
  await settle();
  expect(learning.place(950)).toBe(`${minute(ended)} (judged answer 950)`);
  expect(learning.place(950, made)).toBe(`${minute(made)} (judged answer 950)`);
});

test('the newest comparison that was asked for is shown', async () => {
  const { api, learning } = await openLearning();
  const first = learning.comparison.compare('42', null);
  await learning.comparison.compare('42', '41');
  await first;
  expect(learning.comparison.found?.since).toBe('41');
  expect(learning.comparison.busy).toBe(false);
  expect(api.calls.filter((call) => call.startsWith('changes'))).toEqual(['changes null 42', 'changes 41 42']);
});
