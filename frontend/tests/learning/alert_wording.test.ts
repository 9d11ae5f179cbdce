import { expect, test } from 'vitest';
import { wordAlert } from '../../src/lib/learning/alert_wording';
import type { CurvePoint, Health, SentAlert } from '../../src/lib/schema';

const HEALTH = { measure: 'right' } as Health;
const POINTS = [
  { until: 800, offset: 1_800, ended: null, counts: { served: 800 } },
  { until: 950, offset: 1_950, ended: null, counts: { served: 150 } },
] as unknown as CurvePoint[];

const PLACES = { points: POINTS, numberAt: (offset: number) => offset - 1_000 };

const word = (event: string, figures: SentAlert['figures'], health: Health | null = HEALTH) =>
  wordAlert({ event, figures, model: 'tickets' } as SentAlert, health, PLACES);

test('an alert is worded from its code and figures, in judged answers as the verdict', () => {
  const fell = { code: 'accuracy_fell', before: 0.96, after: 0.01, count: 100, since: 1_800 };
  expect(word('verdict', { status: 'needs_attention', reasons: [fell] })).toBe(
    'Needs attention: since judged answer 801, only 1 of the last 100 judged answers were right; before, 96\u00a0%.',
  );
  expect(word('verdict', { status: 'good', reasons: [] })).toBe('Good.');
  expect(word('drift', { what: 'loss', since: 1_800 })).toBe(
    'Errors became more frequent since about judged answer 800.',
  );
  expect(word('rollback', { since: 1_800, rolled_back_to: 41 })).toBe('The guard rolled back to version 41.');
});

test('an alert that this page does not know keeps the sentence of the service', () => {
  expect(word('disk', { host: 'a' })).toBeNull();
  expect(word('verdict', { status: 'needs_attention', reasons: [{ code: 'new' }] })).toBeNull();
  expect(word('drift', { what: 'loss', since: 1 }, null)).toBeNull();
});
