/* How integers travel: each in as many bits as the sum of all members' needs, so that no sum wraps around.

   integers [L] --modulo 2^bits--> residues [L] --masks are added--> packed bits

   A residue is a number of 64 bits in two words, the lower one first. The bytes are those of `packages/online-federated/online_federated/secure_aggregation/layout.py`.
*/

import { AggregationFailed } from './errors.js';
import type { Bytes } from './primitives.js';

export type Words = Uint32Array<ArrayBuffer>;

/** `length` integers of `bits` bits each; 0 bits if every integer is 0. */
export interface Segment {
  length: number;
  bits: number;
}

const MOST_BITS = 62;
const WORD = 2 ** 32;

export class Layout {
  /** Refuses segments that no service describes. */
  constructor(readonly segments: readonly Segment[]) {
    for (const { length, bits } of segments)
      if (!(Number.isInteger(length) && length >= 0 && Number.isInteger(bits) && bits >= 0))
        throw new AggregationFailed(`a segment of ${length} integers of ${bits} bits`);
      else if (bits > MOST_BITS)
        throw new AggregationFailed(`a segment of ${bits} bits, of which ${MOST_BITS} are possible`);
  }

  /** The number of integers, L. */
  get length(): number {
    return this.segments.reduce((sum, { length }) => sum + length, 0);
  }

  get byteCount(): number {
    return this.segments.reduce((sum, segment) => sum + countBytes(segment), 0);
  }

  /** Numbers modulo 2^64. Refuses values that do not fit: of another number, no integers up to 2^53, or too large. */
  encode(values: ArrayLike<number>): Words {
    if (values.length !== this.length)
      throw new AggregationFailed(`${values.length} values, where the layout has ${this.length}`);
    const words = new Uint32Array(2 * values.length);
    let at = 0;
    for (const { length, bits } of this.segments) {
      const half = 2 ** (bits - 1); // 0.5 without bits
      for (const end = at + length; at < end; at += 1) {
        const value = values[at]!;
        if (!Number.isSafeInteger(value))
          throw new AggregationFailed(`a value is ${value}, and not an integer up to 2^53`);
        if (value >= half || value < -half) throw new AggregationFailed(`a value needs more than ${bits} bits`);
        const high = Math.floor(value / WORD);
        words[2 * at] = value - high * WORD;
        words[2 * at + 1] = high;
      }
    }
    return words;
  }

  /** The lowest bits of all numbers, one after the other, the lowest bit first; each segment begins a byte. */
  pack(words: Words): Bytes {
    const packed = new Uint8Array(this.byteCount);
    let [at, start] = [0, 0];
    for (const segment of this.segments) {
      const { length, bits } = segment;
      let place = 8 * start; // of a bit
      for (const end = at + length; at < end; at += 1) {
        writeBits(packed, place, words[2 * at]!, Math.min(bits, 32));
        if (bits > 32) writeBits(packed, place + 32, words[2 * at + 1]!, bits - 32);
        place += bits;
      }
      start += countBytes(segment);
    }
    return packed;
  }
}

const countBytes = ({ length, bits }: Segment) => Math.ceil((length * bits) / 8);

/** Write the lowest `count` bits of a word, from the bit `place` on. */
function writeBits(packed: Bytes, place: number, word: number, count: number): void {
  for (let written = 0; written < count;) {
    const offset = (place + written) % 8;
    const taken = Math.min(8 - offset, count - written);
    packed[Math.floor((place + written) / 8)]! |= ((word >>> written) & (2 ** taken - 1)) << offset;
    written += taken;
  }
}

/** Add numbers of 64 bits to others, modulo 2^64; times = -1 subtracts them. */
export function addNumbers(total: Words, numbers: Words, times: 1 | -1): void {
  for (let at = 0; at < total.length; at += 2) {
    const low = total[at]! + times * numbers[at]!;
    total[at] = low;
    total[at + 1]! += times * numbers[at + 1]! + Math.floor(low / WORD);
  }
}
