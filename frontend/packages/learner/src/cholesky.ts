/* The lower Cholesky factor of a symmetric positive definite matrix, and solutions with it, in float64.

   A = L L^T      L_ij = (A_ij - L_i . L_j) / L_jj        D^3 / 6 products for D x D

   Columns are taken PANEL at a time: first the products with all columns before them are subtracted, which is nearly
   all the work and sums eight products at once, then what is left between these columns.
*/

import { LearnerError } from './errors.js';

const PANEL = 32;

/** Rows of equal length, `stride` numbers apart. */
export interface Rows {
  values: Float64Array;
  count: number;
  stride: number;
  start: number;
}

/** Factorise [D, D] in its lower triangle, row by row, in place. */
export function factorise(matrix: Float64Array, width: number): void {
  for (let first = 0; first < width; first += PANEL) {
    const end = Math.min(first + PANEL, width);
    const below = selectRows(matrix, width, first, width);
    subtractProducts(below, below, selectRows(matrix, width, first, end), first, first);
    for (let row = first; row < end; row += 1) {
      const start = row * width;
      solveRow(matrix, start, matrix, width, first, row);
      const length = row - first;
      const pivot = matrix[start + row]! - dot(matrix, start + first, matrix, start + first, length);
      if (!(pivot > 0)) throw new LearnerError('these sums are not the sums of any examples');
      matrix[start + row] = Math.sqrt(pivot);
    }
    for (let row = end; row < width; row += 1) solveRow(matrix, row * width, matrix, width, first, end);
  }
}

/** L^-1 b for each row b of [C, D], in place. */
export function solveLower(factor: Float64Array, width: number, rows: Float64Array): void {
  const all = selectRows(rows, width, 0, rows.length / width);
  for (let first = 0; first < width; first += PANEL) {
    const end = Math.min(first + PANEL, width);
    subtractProducts(all, all, selectRows(factor, width, first, end), first, first);
    for (let start = 0; start < rows.length; start += width) solveRow(rows, start, factor, width, first, end);
  }
}

/** L^-T b for one row b, in place. */
export function solveUpper(factor: Float64Array, values: Float64Array): void {
  const width = values.length;
  for (let row = width - 1; row >= 0; row -= 1) {
    const start = row * width;
    const solved = (values[row]! /= factor[start + row]!);
    for (let column = 0; column < row; column += 1) values[column]! -= solved * factor[start + column]!;
  }
}

/** Solve the columns from `first` to `end` of a row, after products with the columns before were subtracted. */
function solveRow(
  values: Float64Array,
  start: number,
  factor: Float64Array,
  width: number,
  first: number,
  end: number,
): void {
  for (let column = first; column < end; column += 1) {
    const other = column * width;
    const product = dot(values, start + first, factor, other + first, column - first);
    values[start + column] = (values[start + column]! - product) / factor[other + column]!;
  }
}

export function selectRows(values: Float64Array, width: number, first: number, end: number): Rows {
  return { values, count: end - first, stride: width, start: first * width };
}

/** Subtract from each row i, at the places from `at` on, its products with all `other` rows over `length` numbers. */
export function subtractProducts(to: Rows, one: Rows, other: Rows, length: number, at: number): void {
  let row = 0;
  for (; row + 1 < one.count; row += 2) {
    let column = 0;
    for (; column + 3 < other.count; column += 4) subtractTile(to, one, other, length, at, row, column);
    for (; column < other.count; column += 1)
      for (const each of [row, row + 1]) subtractOne(to, one, other, length, at, each, column);
  }
  if (row < one.count)
    for (let column = 0; column < other.count; column += 1) subtractOne(to, one, other, length, at, row, column);
}

function subtractOne(to: Rows, one: Rows, other: Rows, length: number, at: number, row: number, column: number): void {
  const product = dot(
    one.values,
    one.start + row * one.stride,
    other.values,
    other.start + column * other.stride,
    length,
  );
  to.values[to.start + row * to.stride + at + column]! -= product;
}

/** The products of two rows with four others, in registers. */
function subtractTile(to: Rows, one: Rows, other: Rows, length: number, at: number, row: number, column: number): void {
  const left = one.values;
  const right = other.values;
  const first = one.start + row * one.stride;
  const second = first + one.stride;
  const a = other.start + column * other.stride;
  const b = a + other.stride;
  const c = b + other.stride;
  const d = c + other.stride;
  let a1 = 0;
  let b1 = 0;
  let c1 = 0;
  let d1 = 0;
  let a2 = 0;
  let b2 = 0;
  let c2 = 0;
  let d2 = 0;
  for (let place = 0; place < length; place += 1) {
    const x = left[first + place]!;
    const y = left[second + place]!;
    const p = right[a + place]!;
    const q = right[b + place]!;
    const r = right[c + place]!;
    const s = right[d + place]!;
    a1 += x * p;
    b1 += x * q;
    c1 += x * r;
    d1 += x * s;
    a2 += y * p;
    b2 += y * q;
    c2 += y * r;
    d2 += y * s;
  }
  const values = to.values;
  const start = to.start + row * to.stride + at + column;
  const next = start + to.stride;
  values[start]! -= a1;
  values[start + 1]! -= b1;
  values[start + 2]! -= c1;
  values[start + 3]! -= d1;
  values[next]! -= a2;
  values[next + 1]! -= b2;
  values[next + 2]! -= c2;
  values[next + 3]! -= d2;
}

/** The product of `count` numbers of two arrays, from two places on; four sums at a time. */
export function dot(one: Float64Array, start: number, other: Float64Array, otherStart: number, count: number): number {
  let first = 0;
  let second = 0;
  let third = 0;
  let fourth = 0;
  let at = 0;
  for (; at + 3 < count; at += 4) {
    first += one[start + at]! * other[otherStart + at]!;
    second += one[start + at + 1]! * other[otherStart + at + 1]!;
    third += one[start + at + 2]! * other[otherStart + at + 2]!;
    fourth += one[start + at + 3]! * other[otherStart + at + 3]!;
  }
  for (; at < count; at += 1) first += one[start + at]! * other[otherStart + at]!;
  return first + second + third + fourth;
}
