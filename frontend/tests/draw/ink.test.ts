import { expect, test } from 'vitest';
import { computeFeatures, type Stroke } from '../../src/lib/draw/ink';
import drawings from '../strokes.json';

export const strokesOf = (name: keyof typeof drawings): Stroke[] =>
  drawings[name].map((stroke) => stroke.map(([x, y]) => ({ x: x!, y: y! })));

const moved = (strokes: Stroke[], scale: number, dx: number, dy: number): Stroke[] =>
  strokes.map((stroke) => stroke.map(({ x, y }) => ({ x: scale * x + dx, y: scale * y + dy })));

const rowsOf = (features: number[]) => Array.from({ length: 8 }, (_, row) => features.slice(8 * row, 8 * row + 8));
const columnOf = (features: number[], column: number) => rowsOf(features).map((row) => row[column]!);
const sum = (numbers: number[]) => numbers.reduce((all, one) => all + one, 0);

test.each(Object.keys(drawings) as (keyof typeof drawings)[])(
  '%s becomes 64 whole numbers, as black as a digit, from the top row to the bottom row',
  (name) => {
    const features = computeFeatures(strokesOf(name))!;
    expect(features).toHaveLength(64);
    expect(features.every((value) => Number.isInteger(value) && value >= 0 && value <= 16)).toBe(true);
    expect(Math.abs(sum(features) - 312)).toBeLessThan(16);
    const rows = rowsOf(features).map(sum);
    expect(Math.min(rows[0]!, rows[7]!)).toBeGreaterThan(0);
    expect(sum(columnOf(features, 0))).toBe(0); // a digit fills the six columns in the middle
    expect(sum(columnOf(features, 7))).toBeLessThan(32);
  },
);

test('the place and the size of a drawing hardly change its features', () => {
  const features = computeFeatures(strokesOf('5'))!;
  for (const [scale, dx, dy] of [
    [64, 0, 0],
    [8, 50, 3],
    [96, -10, 20],
  ] as const) {
    const other = computeFeatures(moved(strokesOf('5'), scale, dx, dy))!;
    expect(Math.max(...features.map((value, place) => Math.abs(value - other[place]!)))).toBeLessThanOrEqual(2);
  }
});

test('a vertical line stays slim, a horizontal line stays flat, and a dot is as black as a digit', () => {
  const line = computeFeatures([
    [
      { x: 5, y: 0 },
      { x: 5, y: 9 },
    ],
  ])!;
  expect(sum(columnOf(line, 1)) + sum(columnOf(line, 6))).toBe(0);
  const flat = computeFeatures([
    [
      { x: 0, y: 5 },
      { x: 9, y: 5 },
    ],
  ])!;
  expect(sum(rowsOf(flat)[0]!)).toBe(0);
  const dot = computeFeatures([[{ x: 3, y: 3 }]])!;
  expect(Math.abs(sum(dot) - 312)).toBeLessThan(16);
});

test('the number of points on a line does not change its features', () => {
  const [from, to] = [
    { x: 0, y: 0 },
    { x: 40, y: 90 },
  ];
  const many = Array.from({ length: 1000 }, (_, place) => ({
    x: (40 * place) / 999,
    y: (90 * place) / 999,
  }));
  expect(computeFeatures([many])).toEqual(computeFeatures([[from, to]]));
});

test('an empty drawing has no features', () => {
  expect(computeFeatures([])).toBeNull();
});
