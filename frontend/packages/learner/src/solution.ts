/* Weights, solved from the integer sums: linear discriminants or ridge regression, as in the service.

   slda    W = gram - sum n_c m_c m_c^T        A = W + a diag(v) + r I        score = (a + n) (x - m_c / 2) A^-1 m_c + log prior
   ridge   A = gram + r I                      score = x A^-1 q_c

   Solved is only what does not depend on the input: the factor of A, and L^-1 m_c of each class. An input costs one
   more triangle, so that an example that was learned shows at once in the next answer.
   Shapes: C classes, D features.
*/

import { dot, factorise, selectRows, solveLower, solveUpper, subtractProducts } from './cholesky.js';
import type { ClassSums, Sums } from './sums.js';

export type Head = 'slda' | 'ridge';

export interface SolverOptions {
  head: Head;
  /** In examples per feature. */
  shrinkage: number;
  /** Whether frequent classes are preferred. */
  priors: boolean;
  /** Strength of the ridge, as a share of the mean diagonal. */
  ridgeRatio: number;
}

export interface Solution {
  /** Classes with a positive example: only these are answered. */
  classes: readonly string[];
  scores(features: Int8Array): Float64Array;
}

const NEGATIVE_PULL = 0.25; // share by which a mean moves away from its negative examples
const FLOOR_RATIO = 0.6; // of the mean second moment: the least variance that the covariance is shrunk toward
const RIDGE_RATIO = 1e-4; // of the mean variance
const STRIP = 32; // rows of the lower triangle that are computed together

/** The weights that follow from the sums. Without a class that has a positive example there are none. */
export function solve(sums: Sums, options: SolverOptions): Solution {
  const known = [...sums.classes].filter(([, { counts }]) => counts[0] > 0);
  const names = known.map(([label]) => label);
  const classes = known.map(([, each]) => each);
  if (names.length === 0) return { classes: names, scores: () => new Float64Array(0) };
  const scores =
    options.head === 'slda' ? solveSlda(sums, classes, options) : solveRidge(sums, classes, options.ridgeRatio);
  return { classes: names, scores };
}

function solveSlda(sums: Sums, classes: readonly ClassSums[], options: SolverOptions) {
  const { width } = sums;
  const total = classes.reduce((sum, { counts }) => sum + counts[0], 0);
  const strength = options.shrinkage * width;
  const factor = unpackLower(sums.gram, width);
  const squares = sumDiagonal(factor, width);
  subtractMeans(factor, width, classes);
  addShrinkage(factor, width, squares, total, strength);
  factorise(factor, width);
  const means = joinRows(classes.map(computeMean), width);
  solveLower(factor, width, means);
  const scale = strength + total;
  const biases = classes.map(({ counts }, place) => {
    const length = dot(means, place * width, means, place * width, width);
    const prior = Math.log((counts[0] + 1) / (total + sums.classes.size));
    return -0.5 * scale * length + (options.priors ? prior : 0);
  });
  return (features: Int8Array) => {
    const input = Float64Array.from(features);
    solveLower(factor, width, input);
    return Float64Array.from(biases, (bias, place) => scale * dot(input, 0, means, place * width, width) + bias);
  };
}

function joinRows(rows: readonly Float64Array[], width: number): Float64Array {
  const all = new Float64Array(rows.length * width);
  rows.forEach((row, place) => all.set(row, place * width));
  return all;
}

/** [D, D] in the lower triangle. */
function unpackLower(gram: Float64Array, width: number): Float64Array {
  const matrix = new Float64Array(width * width);
  for (let column = 0, at = 0; column < width; column += 1)
    for (let row = column; row < width; row += 1, at += 1) matrix[row * width + column] = gram[at]!;
  return matrix;
}

function sumDiagonal(matrix: Float64Array, width: number): number {
  let sum = 0;
  for (let at = 0; at < matrix.length; at += width + 1) sum += matrix[at]!;
  return sum;
}

/** Subtract sum n_c m_c m_c^T, by the rows [D, C] of sqrt(n_c) m_c. */
function subtractMeans(matrix: Float64Array, width: number, classes: readonly ClassSums[]): void {
  const count = classes.length;
  const rows = new Float64Array(width * count);
  classes.forEach(({ counts, sums }, place) => {
    const root = Math.sqrt(counts[0]);
    for (let at = 0; at < width; at += 1) rows[at * count + place] = sums[0][at]! / root;
  });
  for (let first = 0; first < width; first += STRIP) {
    const end = Math.min(first + STRIP, width);
    const strip = selectRows(rows, count, first, end);
    const before = selectRows(rows, count, 0, end);
    subtractProducts(selectRows(matrix, width, first, end), strip, before, count, 0);
  }
}

/** Add to the diagonal of W: the covariance is shrunk toward its own diagonal, which has a floor. */
function addShrinkage(matrix: Float64Array, width: number, squares: number, total: number, strength: number): void {
  const floor = (FLOOR_RATIO * squares) / width + total;
  const target = new Float64Array(width);
  for (let at = 0; at < width; at += 1) target[at] = Math.max(matrix[at * (width + 1)]!, floor);
  const mean = target.reduce((sum, value) => sum + value, 0) / (width * total);
  const ridge = RIDGE_RATIO * (strength + total) * mean;
  for (let at = 0; at < width; at += 1) matrix[at * (width + 1)]! += (strength * target[at]!) / total + ridge;
}

/** The mean of a class, away from its negative examples. */
function computeMean({ counts: [count, negative], sums: [positives, negatives] }: ClassSums) {
  const mean = positives.map((sum) => sum / count);
  if (negative === 0) return mean;
  const pull = (NEGATIVE_PULL * negative) / Math.max(negative + count, 1);
  return mean.map((value, at) => value - pull * (negatives[at]! / negative - value));
}

function solveRidge(sums: Sums, classes: readonly ClassSums[], ratio: number) {
  const { width } = sums;
  const factor = unpackLower(sums.gram, width);
  const strength = ratio * roundBits(Math.max(sumDiagonal(factor, width), 1) / Math.max(width, 1)) + 1;
  for (let at = 0; at < factor.length; at += width + 1) factor[at]! += strength;
  factorise(factor, width);
  const targets = classes.map(({ sums: [positives, negatives] }) =>
    positives.map((sum, at) => sum - NEGATIVE_PULL * negatives[at]!),
  );
  return (features: Int8Array) => {
    const input = Float64Array.from(features);
    solveLower(factor, width, input);
    solveUpper(factor, input);
    return Float64Array.from(targets, (target) => dot(input, 0, target, 0, width));
  };
}

/** A positive number, rounded to three significant bits. */
function roundBits(value: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const dropped = 50n;
  const bits = view.getBigUint64(0) + (1n << (dropped - 1n));
  view.setBigUint64(0, (bits >> dropped) << dropped);
  return view.getFloat64(0);
}
