/* What identifies learned sums: SHA-256 over integers and names, the same as in the service.

   Classes and features without any example are left out, and the others are taken in the order of their names, so
   that the digest depends on the examples alone.
*/

import type { Sums } from './sums.js';

const toBytes = (text: string) => new TextEncoder().encode(text);

/** The bytes that are hashed. names: of the features; null: in their own order, all of them. */
export function listDigested(sums: Sums, names: readonly string[] | null): Uint8Array<ArrayBuffer> {
  const used = [...sums.classes]
    .filter(([, { counts }]) => counts[0] || counts[1])
    .sort(([one], [other]) => compareCodePoints(one, other));
  const places = names ? sortUsed(sums, names) : Array.from({ length: sums.width }, (_, at) => at);
  const title = toBytes(
    (names ? places.map((at) => names[at]).join('\0') : '') + used.map(([label]) => label).join('\0'),
  );
  const numbers = new Int64Writer(2 * used.length * (1 + places.length) + places.length ** 2);
  const sides = [0, 1] as const;
  for (const side of sides) for (const [, { counts }] of used) numbers.write(counts[side]);
  for (const side of sides)
    for (const [, { sums: sum }] of used) for (const at of places) numbers.write(sum[side][at]!);
  for (const row of places) for (const column of places) numbers.write(sums.gram[gramPlace(sums.width, row, column)]!);
  const bytes = new Uint8Array(title.length + numbers.bytes.length);
  bytes.set(title);
  bytes.set(numbers.bytes, title.length);
  return bytes;
}

/** The features that any example has, by name. */
function sortUsed(sums: Sums, names: readonly string[]): number[] {
  const used = new Uint8Array(sums.width);
  for (const { sums: sides } of sums.classes.values())
    for (const sum of sides) sum.forEach((value, at) => (used[at]! |= Number(value !== 0)));
  for (let row = 0, at = 0; row < sums.width; row += 1)
    for (let column = row; column < sums.width; column += 1, at += 1)
      if (sums.gram[at] !== 0) used[row] = used[column] = 1;
  return names
    .map((name, at) => [name, at] as const)
    .filter(([, at]) => used[at])
    .sort(([one], [other]) => compareCodePoints(one, other))
    .map(([, at]) => at);
}

/** Where the upper triangle holds an entry. */
function gramPlace(width: number, row: number, column: number): number {
  const [low, high] = row < column ? [row, column] : [column, row];
  return low * width - (low * (low - 1)) / 2 + high - low;
}

/** Compare as Python does: by code points, where the operators of JavaScript compare UTF-16 units. */
export function compareCodePoints(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const difference = rank(one.charCodeAt(at)) - rank(other.charCodeAt(at));
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}

/** Surrogates, which stand for code points from 0x10000 on, come after all other units. */
const rank = (unit: number) => (unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800);

/** Integers as int64, little-endian. */
class Int64Writer {
  private words: Uint32Array<ArrayBuffer>;
  private at = 0;

  constructor(count: number) {
    this.words = new Uint32Array(2 * count);
  }

  write(value: number): void {
    const high = Math.floor(value / 2 ** 32);
    this.words[this.at] = value - high * 2 ** 32;
    this.words[this.at + 1] = high;
    this.at += 2;
  }

  get bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.words.buffer);
  }
}
