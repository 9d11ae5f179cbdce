import { expect, test } from 'vitest';
import { Columns, roundHalfEven, type Column } from '../../packages/learner/src/columns.js';

test.each([
  [0.5, 0],
  [1.5, 2],
  [2.5, 2],
  [-0.5, 0],
  [-1.5, -2],
  [-2.5, -2],
  [0.49999999999999994, 0],
  [-0.49999999999999994, 0],
  [0.5000000000000001, 1],
  [2 ** 52 + 1, 2 ** 52 + 1],
  [-(2 ** 53), -(2 ** 53)],
  [5e-324, 0],
  [Infinity, Infinity],
  [-Infinity, -Infinity],
])('%d is rounded to %d', (value, rounded) => {
  expect(roundHalfEven(value) + 0).toBe(rounded);
});

test('a number is quantised by a power of two and clipped', () => {
  const columns = new Columns(long([['0', true, 3, 0]]));
  const first = (value: number) => columns.read([value, ...Array<number>(64).fill(0)])[0];
  expect([0.0625, 0.1875, 15.9, -15.9, 1e300].map(first)).toEqual([0, 2, 127, -127, 127]);
});

test('the largest and the least exponent keep numbers finite', () => {
  const columns = new Columns(
    long([
      ['0', true, 1023, 0],
      ['1', true, -1022, 0],
    ]),
  );
  const features = columns.read([1e300, 1e300, ...Array<number>(63).fill(0)]);
  expect([features[0], features[1]]).toEqual([127, 0]);
});

test('a short vector has bumps in integers', () => {
  const columns = Columns.withScale(1, 16);
  expect([...columns.read([16])]).toEqual([64, 0, 42, 84]);
  expect(columns.names).toEqual(['0 2 0', '0~-96 2 0', '0~0 2 0', '0~96 2 0']);
});

test('a mapping has the name that it has in the service', () => {
  expect(Columns.withScale(3, 16).epoch).toBe('vector-397975ae0225');
  expect(Columns.withScale(65, 0.1).epoch).toBe('vector-719c07ff1072');
});

test('columns of a file that are out of order are refused', () => {
  expect(() => Columns.parse([['1', true, 0, 0]], 1)).toThrow('in order');
  expect(() => Columns.parse([['0', true, 1024, 0]], 1)).toThrow('in order');
});

/** Completed to a vector that is too long for bumps. */
const long = (columns: Column[]): Column[] => [
  ...columns,
  ...Array.from({ length: 65 - columns.length }, (_, at): Column => [`${at + columns.length}`, true, 0, 0]),
];
