import { expect, test } from 'vitest';
import { conditionOf, seenAt, summarize, worstOf } from '../../src/lib/cluster/cluster';
import type { ClusterAnswer, ReplicaModel, ReplicaState } from '../../src/lib/schema';

const model = (changed: Partial<ReplicaModel> = {}): ReplicaModel => ({
  model: 'm',
  version: '3',
  learned_until: 10,
  lag: 0,
  state_sha256: 'a'.repeat(64),
  agrees: true,
  role: 'learns',
  determinism_domain: '',
  diverged: null,
  ...changed,
});
const replica = (id: string, models: ReplicaModel[], is_present = true): ReplicaState => ({
  id,
  url: '',
  is_present,
  seen_s: 1,
  release: '1',
  learner: 'running',
  free_disk_bytes: null,
  clock_difference_s: null,
  signing_keys: '',
  models,
});
const cluster = (...replicas: ReplicaState[]): ClusterAnswer => ({ is_shared: true, store: '', models: [], replicas });

test('a condition says the worst first', () => {
  const here = { is_present: true };
  expect(conditionOf(here, model())).toBe('current');
  expect(conditionOf(here, model({ lag: 5 }))).toBe('current');
  expect(conditionOf(here, model({ lag: 50_000 }))).toBe('behind');
  expect(conditionOf(here, model({ role: 'does not learn', lag: 50_000 }))).toBe('idle');
  expect(conditionOf(here, model({ role: 'stands by' }))).toBe('current');
  expect(conditionOf(here, model({ agrees: null }))).toBe('current');
  expect(conditionOf(here, model({ agrees: false }))).toBe('differs');
  expect(conditionOf(here, model({ role: 'diverged', agrees: false }))).toBe('diverged');
  expect(conditionOf({ is_present: false }, model({ role: 'diverged' }))).toBe('absent');
});

test('a replica has the condition of its worst model, and none of it while it is absent', () => {
  expect(worstOf(replica('a', [model(), model({ lag: 5_000 })]))).toBe('behind');
  expect(worstOf(replica('a', [model({ lag: 5_000 }), model({ role: 'diverged' })]))).toBe('diverged');
  expect(worstOf(replica('a', [], false))).toBe('absent');
  expect(worstOf(replica('a', []))).toBe('current');
});

test('the summary counts who is there, who is not, and who has another model', () => {
  const answer = cluster(
    replica('a', [model()]),
    replica('b', [model({ agrees: false })]),
    replica('c', [model({ role: 'diverged' })]),
    replica('d', [model({ role: 'diverged' })], false),
  );
  expect(summarize(answer)).toEqual({ present: 3, absent: 1, different: 2 });
});

test('when a replica was seen is an instant of this clock', () => {
  expect(seenAt({ seen_s: 90 }, new Date('2026-01-01T00:02:00Z'))).toBe('2026-01-01T00:00:30.000Z');
});
