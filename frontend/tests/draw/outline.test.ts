import { expect, test } from 'vitest';
import { computeFeatures, pathOf } from '../../src/lib/draw/ink';
import { OUTLINE_SIDE, outlineOf } from '../../src/lib/draw/outline';
import strokes from '../strokes.json';

const BLANK = new Array<number>(64).fill(0);
const outlines = (path: string) => path.split('Z').length - 1;
const featuresOf = (name: keyof typeof strokes) =>
  computeFeatures(strokes[name].map((stroke) => stroke.map(([x, y]) => ({ x: x!, y: y! }))))!;

test('a blank drawing has no outline', () => {
  expect(outlineOf(BLANK)).toBe('');
});

test('a full square has one outline around all of it', () => {
  const path = outlineOf(BLANK.map(() => 16));
  const places = [...path.matchAll(/[\d.]+/g)].map(([place]) => Number(place));
  expect(outlines(path)).toBe(1);
  expect(Math.min(...places)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...places)).toBeLessThanOrEqual(OUTLINE_SIDE);
});

test('two blots have two outlines, and a ring has an outer and an inner one', () => {
  const blots = BLANK.map((_, place) => (place === 9 || place === 54 ? 16 : 0));
  expect(outlines(outlineOf(blots))).toBe(2);
  expect(outlines(outlineOf(featuresOf('0')))).toBe(2);
});

test.each(Object.keys(strokes) as (keyof typeof strokes)[])(
  'every outline of the drawing of %s closes where it began',
  (name) => {
    for (const outline of outlineOf(featuresOf(name)).split('Z').slice(0, -1)) {
      const points = outline.slice(1).split('L');
      const [begin, end] = [points[0]!, points.at(-1)!].map((point) =>
        point.split(' ').map(Number),
      );
      expect(Math.hypot(begin![0]! - end![0]!, begin![1]! - end![1]!)).toBeLessThan(1.5);
    }
  },
);

test('a path is small enough to show hundreds of them', () => {
  expect(outlineOf(featuresOf('star')).length).toBeLessThan(2_000);
});

test('a stroke becomes a line, and a point a dot', () => {
  expect(
    pathOf([
      { x: 1, y: 2 },
      { x: 3, y: 4 },
    ]),
  ).toBe('M1 2L3 4');
  expect(pathOf([{ x: 1, y: 2 }])).toBe('M1 2h0.01');
  expect(pathOf([])).toBe('');
});
