import { expect, test } from 'vitest';
import { answerAt, judgedPoints, namePlace, shortTimeAt } from '../../src/lib/learning/places';
import type { CurvePoint } from '../../src/lib/schema';

const point = (until: number, offset: number, ended: string): CurvePoint => ({
  until,
  offset,
  began: ended,
  ended,
  counts: {},
  sums: {},
});
const POINTS = [
  point(10, 1_010, '2026-11-21T04:00:00'),
  point(20, 1_030, '2026-11-21T04:02:00'),
  point(24, 1_040, '2026-11-21T04:05:00'),
];

test('an event is found among the judged answers, between two points of the curve too', () => {
  expect([1_010, 1_020, 1_030, 1_035, 9_000].map((offset) => answerAt(POINTS, offset))).toEqual([
    10, 15, 20, 22, 24,
  ]);
  expect(answerAt([], 5)).toBe(null);
});

test('a place is said in time and judged answers, or in what is known of them', () => {
  expect(namePlace(POINTS, 1_030)).toMatch(/04:02 \(judged answer 20\)$/);
  expect(namePlace(POINTS, 1_030, '2026-11-21T03:59:30')).toMatch(/03:59 \(judged answer 20\)$/);
  expect(namePlace([], 7, '2026-11-21T03:59:30')).toMatch(/03:59$/);
});

test('a long curve has days on its axis, a short one hours', () => {
  expect(shortTimeAt(POINTS, 12)).toBe('04:02');
  const long = [...POINTS, point(30, 1_100, '2026-11-24T04:05:00')];
  expect(shortTimeAt(long, 12)).toBe('Nov 21');
  expect(shortTimeAt([], 12)).toBe('');
});

test('only served answers are numbered, and what was taught beside them goes to the next one', () => {
  const judged = (served: number, usual: number, offset: number): CurvePoint => ({
    ...point(0, offset, '2026-11-21T04:00:00'),
    counts: { ...(served ? { served } : {}), majority: usual },
    sums: { ...(served ? { served } : {}), majority: 0 },
  });
  const points = [judged(0, 2, 10), judged(3, 3, 20), judged(0, 1, 30), judged(1, 1, 40)];
  const found = judgedPoints([...points, judged(0, 1, 50)]);
  expect(found.map(({ until, offset, counts }) => [until, offset, counts])).toEqual([
    [3, 20, { served: 3, majority: 5 }],
    [4, 50, { served: 1, majority: 3 }],
  ]);
  expect(judgedPoints([judged(0, 2, 10)])).toEqual([]);
});
