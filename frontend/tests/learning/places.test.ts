import { expect, test } from 'vitest';
import {
  answerAt,
  answerFrom,
  judgedPoints,
  nameBegin,
  namePlace,
  numberAtOf,
  NO_PLACES,
  shortTimeAt,
} from '../../src/lib/learning/places';
import type { CurvePoint } from '../../src/lib/schema';
import { NO_CURVE } from '../fake';

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

const NUMBERS = new Map([
  [1_029, 19],
  [1_030, 20],
]);
const PLACES = { points: POINTS, numberAt: (offset: number) => NUMBERS.get(offset) ?? null };

/** A curve of points that each hold some examples, of which some judge a served answer. */
function curveOf(counted_until: number, ...points: [until: number, offset: number, served: number][]) {
  const all = points.map(([until, offset, served]) => ({
    ...point(until, offset, '2026-11-21T04:00:00'),
    counts: served ? { served } : {},
  }));
  return { ...NO_CURVE, counted_until, points: all };
}

test('the number of an answer is exact, and asked for where the curve is thinned', () => {
  const asked: number[] = [];
  const curve = curveOf(60, [4, 10, 4], [5, 20, 1], [8, 30, 0], [18, 40, 10], [28, 50, 3]);
  const numberAt = numberAtOf(curve, (offset) => {
    asked.push(offset);
    return 7;
  });
  expect([10, 15, 20, 25, 30, 35, 40, 50, 55, 60].map(numberAt)).toEqual([4, 4, 5, 5, 5, 10, 15, 18, 18, 18]);
  expect(asked).toEqual([]);
  expect([5, 45].map(numberAt)).toEqual([7, 7]);
  expect(asked).toEqual([5, 45]);
  expect(numberAt(61)).toBe(null); // not counted yet
});

test('something begins with the first judged answer from there on', () => {
  const labels = curveOf(660, [10, 10, 10], [650, 650, 0], [660, 660, 10]);
  const places = { points: judgedPoints(labels.points), numberAt: numberAtOf(labels) };
  expect([5, 10, 11, 300, 650].map((offset) => answerAt(places, offset))).toEqual([5, 10, 10, 10, 10]);
  expect([5, 10, 11, 300, 651].map((offset) => answerFrom(places, offset))).toEqual([5, 10, 11, 11, 11]);
  expect([answerAt(NO_PLACES, 5), answerFrom(NO_PLACES, 5)]).toEqual([null, null]);
});

test('a place is said in time and judged answers, or in what is known of them', () => {
  expect(namePlace(PLACES, 1_030)).toMatch(/04:02 \(judged answer 20\)$/);
  expect(nameBegin(PLACES, 1_030)).toMatch(/04:02 \(judged answer 20\)$/);
  expect(nameBegin(PLACES, 1_031)).toMatch(/04:05 \(judged answer 21\)$/);
  expect(namePlace(PLACES, 1_030, '2026-11-21T03:59:30')).toMatch(/03:59 \(judged answer 20\)$/);
  expect(namePlace(PLACES, 1_035, '2026-11-21T03:59:30')).toMatch(/03:59$/);
  expect(namePlace(NO_PLACES, 7, '2026-11-21T03:59:30')).toMatch(/03:59$/);
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
