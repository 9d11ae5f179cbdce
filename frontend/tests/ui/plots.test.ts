import { expect, test } from 'vitest';
import { NO_PLACES, numberAtOf } from '../../src/lib/learning/places';
import { curveChart, movingMeans, nameMark, ownAccuracyChart, versionTicks } from '../../src/lib/ui/plots';
import type { Curve, CurvePoint, Drift, DriftChange, Version } from '../../src/lib/schema';
import { NO_CURVE } from '../fake';

/** One outcome for each point: whether the served answer and the no-change baseline were right; null if unrated. */
const points = (...outcomes: [number | null, number | null][]): CurvePoint[] =>
  outcomes.map(([served, no_change], place) => {
    const rated = Object.entries({ served, no_change }).filter((each): each is [string, number] => each[1] !== null);
    return {
      until: place + 1,
      offset: 10 * (place + 1),
      began: null,
      ended: null,
      counts: Object.fromEntries(rated.map(([name]) => [name, 1])),
      sums: Object.fromEntries(rated),
    };
  });

test('each point is the mean of the outcomes within the width', () => {
  const some = points([0, null], [1, null], [1, null], [0, null], [1, null]);
  expect(movingMeans(some, 'served', 2)).toEqual([0, 0.5, 1, 0.5, 0.5]);
  expect(movingMeans(some, 'served', 100).at(-1)).toBeCloseTo(0.6);
  expect(movingMeans(some, 'no_change', 2)).toEqual([null, null, null, null, null]);
});

test('a curve has a line for each model and baseline, and a mark for each drift', () => {
  const curve: Curve = {
    ...NO_CURVE,
    counted_until: 30,
    points: points([0, null], [1, 0], [1, 0]),
  };
  const alarms = [{ offset: 15, what: 'class', label: 'b' } as Drift, { offset: 99, what: 'loss' } as Drift];
  const changes = alarms.map((alarm) => ({ offset: alarm.offset, alarms: [alarm] }) as DriftChange);
  const chart = curveChart(curve, changes);
  expect(chart.lines.map(({ name }) => name)).toEqual(['model', 'guess: same as last time']);
  expect(chart.lines[1]!.values).toEqual([null, 0, 0]);
  expect(chart.marks).toEqual([{ x: 1, name: 'alarm: “b” was missed more often' }]); // the other one is not counted yet
});

test('the curve of the session is the ratio of correct guesses so far', () => {
  expect(ownAccuracyChart([false, true, true, false])).toMatchObject({
    places: [1, 2, 3, 4],
    lines: [{ values: [0, 1 / 2, 2 / 3, 1 / 2] }],
  });
});

test('versions have ticks where they went live, and many near each other have one', () => {
  const some = points(...Array.from({ length: 48 }, (): [number, number] => [1, 1]));
  const versions = [480, 470, 100, 10, 0].map(
    (learned_until, at) => ({ version: String(5 - at), learned_until }) as Version,
  );
  const places = {
    points: some,
    numberAt: numberAtOf({ ...NO_CURVE, counted_until: 480, points: some }),
  };
  expect(versionTicks(places, versions).map(({ x, name, isTick }) => [x, name, isTick])).toEqual([
    [1, 'version 2 went live', true],
    [10, 'version 3 went live', true],
    [48, 'versions 4 to 5 went live', true],
  ]);
  const all = some.map(({ offset }, at) => ({ version: `${at + 1}`, learned_until: offset }));
  expect(versionTicks(places, all.reverse() as Version[]).length).toBe(24);
  expect(versionTicks(NO_PLACES, versions)).toEqual([]);
});

test('a mark says its own number beside the values of a later place', () => {
  const mark = { x: 301, name: 'the fall begins' };
  expect([nameMark(mark, 301), nameMark(mark, 302)]).toEqual(['the fall begins', 'the fall begins (301)']);
  expect(nameMark({ ...mark, isTick: true }, 302)).toBe('the fall begins');
});

test('the past roll backs of the guard are marked by their event', () => {
  const curve: Curve = { ...NO_CURVE, points: points([1, 1], [1, 1], [0, 1]) };
  const past = { offset: 20, name: 'the guard rolled back to version 4', kind: 'roll back' };
  expect(curveChart(curve, [], [past]).marks).toEqual([
    { x: 2, name: 'the guard rolled back to version 4', kind: 'roll back' },
  ]);
});
