/* Sums of int8 examples in integers, which are all that a learner remembers.

   per class: counts and sums of features, of positive and of negative examples
   gram: the upper triangle of sum x x^T over the positive ones, row by row

   Integers in float64 are exact up to 2^53; what could pass that is refused. Addition commutes, so that any order and
   any grouping of the same examples leaves the same sums, here and in the service.
   Shapes: D features, C classes.
*/

import { LearnerError } from './errors.js';

/** 0: positive, 1: negative. */
export type Side = 0 | 1;
export type Times = 1 | -1;

export interface ClassSums {
  counts: [number, number];
  /** Two times [D]. */
  sums: [Float64Array, Float64Array];
}

const LARGEST_PRODUCT = 128 * 128; // of two int8 numbers

export class Sums {
  /** In the order in which they came. */
  readonly classes = new Map<string, ClassSums>();
  readonly gram: Float64Array;
  private bound = 0; // no entry is larger

  constructor(readonly width: number) {
    this.gram = new Float64Array((width * (width + 1)) / 2);
  }

  /** Positive examples. */
  get count(): number {
    return [...this.classes.values()].reduce((sum, { counts }) => sum + counts[0], 0);
  }

  /** The sums of a class, which is appended if it is new. */
  addClass(label: string): ClassSums {
    let found = this.classes.get(label);
    if (!found) {
      const empty = () => new Float64Array(this.width);
      found = { counts: [0, 0], sums: [empty(), empty()] };
      this.classes.set(label, found);
    }
    return found;
  }

  /** Make sure that adding numbers up to `more` stays exact. */
  reserve(more: number): void {
    const bound = this.bound + more;
    if (!(bound <= Number.MAX_SAFE_INTEGER))
      throw new LearnerError('these sums would exceed 2^53, up to which they are exact');
    this.bound = bound;
  }

  /** Add an example, int8 [D]; times = -1 subtracts it. */
  add(row: Int8Array, label: string, side: Side, times: Times): void {
    this.reserve(LARGEST_PRODUCT);
    const { counts, sums } = this.addClass(label);
    const sum = sums[side];
    counts[side] += times;
    for (let place = 0; place < row.length; place += 1) sum[place]! += times * row[place]!;
    if (side === 0) addProducts(this.gram, row, times);
  }

  /** Add other sums of the same features; times = -1 subtracts them. */
  merge(other: Sums, times: Times = 1): void {
    this.reserve(other.bound);
    for (const [label, { counts, sums }] of other.classes) {
      const own = this.addClass(label);
      for (const side of [0, 1] as const) {
        own.counts[side] += times * counts[side];
        addScaled(own.sums[side], sums[side], times);
      }
    }
    addScaled(this.gram, other.gram, times);
  }

  copy(): Sums {
    const other = new Sums(this.width);
    other.merge(this);
    return other;
  }

  /** counts [2, C], sums [2, C, D] and the Gram matrix's upper triangle, one after the other. */
  flatten(): Float64Array<ArrayBuffer> {
    const classes = [...this.classes.values()];
    const sides = [0, 1] as const;
    const start = 2 * classes.length * (1 + this.width);
    const values = new Float64Array(start + this.gram.length);
    values.set(sides.flatMap((side) => classes.map(({ counts }) => counts[side])));
    const rows = sides.flatMap((side) => classes.map(({ sums }) => sums[side]));
    rows.forEach((row, place) => values.set(row, 2 * classes.length + place * this.width));
    values.set(this.gram, start);
    return values;
  }

  /** The sums without classes that have no example. */
  withoutEmpty(): Sums {
    const other = this.copy();
    for (const [label, { counts, sums }] of other.classes)
      if (counts[0] === 0 && counts[1] === 0 && !sums.some((sum) => sum.some(Boolean))) other.classes.delete(label);
    return other;
  }
}

/** Add the upper triangle of times * x x^T. */
function addProducts(gram: Float64Array, row: Int8Array, times: Times): void {
  const width = row.length;
  for (let place = 0, start = 0; place < width; start += width - place, place += 1) {
    const factor = times * row[place]!;
    if (factor === 0) continue;
    for (let other = place, at = start; other < width; other += 1, at += 1) gram[at]! += factor * row[other]!;
  }
}

function addScaled(to: Float64Array, from: Float64Array, times: Times): void {
  for (let place = 0; place < to.length; place += 1) to[place]! += times * from[place]!;
}
