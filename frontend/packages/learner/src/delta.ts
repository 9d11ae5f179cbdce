/* What changed between two versions of a file of sums, as the service sends it (GET .../versions/V/delta?from=U).

   counts, sums   the difference from the file before; left out where nothing changed
   gram           what its counts and sums do not tell: of a class with n more examples, s s^T / n is expected, where s is
                  the difference of its sums. For n = 1 that is all, so that the delta of a thumb is one row of int8
   metadata       the entries that changed

   Shapes: D features, C classes.
*/

import { LearnerError } from './errors.js';
import { Learner } from './learner.js';
import { isListOfNames, isObject, readHeader, readOptional, readSums, writeSums, type Meta } from './sums_file.js';
import { Sums } from './sums.js';

const FORMAT = 1;

interface DeltaHeader {
  width: number;
  classes: string[];
  meta: Meta;
}

/** The file after a delta. Refused unless the result has the fingerprint that the delta names. */
export function applyDelta(file: Uint8Array, delta: Uint8Array): Uint8Array<ArrayBuffer> {
  const { sums: before, meta } = readSums(file);
  const { header, body } = readHeader(delta);
  const { width, classes, meta: next } = readDeltaHeader(header, { ...meta, classes: [...before.classes.keys()] });
  const counts = readOptional(header, body, 'counts', [2, classes.length]);
  const changes = readOptional(header, body, 'sums', [2, classes.length, width]);
  const after = new Sums(width);
  widenGram(before, after);
  const old = [...before.classes.values()];
  classes.forEach((label, place) => {
    const own = after.addClass(label);
    for (const side of [0, 1] as const) {
      const row = side * classes.length + place;
      const change = changes.subarray(row * width, (row + 1) * width);
      own.counts[side] = (old[place]?.counts[side] ?? 0) + counts[row]!;
      own.sums[side].set((old[place]?.sums[side] ?? new Float64Array(0)).subarray(0, width));
      change.forEach((value, at) => (own.sums[side][at]! += value));
      if (side === 0 && counts[row] !== 0) addExpected(after.gram, own.sums[0], old[place]?.sums[0], counts[row]!);
    }
  });
  const rest = readOptional(header, body, 'gram', [after.gram.length]);
  rest.forEach((value, at) => (after.gram[at]! += value));
  const written = writeSums(after, next);
  Learner.read(written); // its fingerprint is compared
  return written;
}

function readDeltaHeader(header: Meta, known: Meta): DeltaHeader {
  const texts = header['__metadata__'];
  const text = isObject(texts) ? texts['delta'] : null;
  const delta: unknown = typeof text === 'string' ? JSON.parse(text) : null;
  if (!isObject(delta) || delta['format'] !== FORMAT || !isObject(delta['layout']) || !isObject(delta['changed']))
    throw new LearnerError(`not a delta of format ${FORMAT}`);
  const { classes, format: _, ...meta } = { ...known, ...delta['changed'] };
  const removed = Array.isArray(delta['removed']) ? delta['removed'] : [];
  for (const name of removed) delete meta[String(name)];
  const sums = delta['layout']['sums'];
  const shape: unknown = Array.isArray(sums) ? sums[1] : null;
  const width: unknown = Array.isArray(shape) ? shape[2] : null;
  if (!isListOfNames(classes) || !Number.isInteger(width) || typeof meta['fingerprint'] !== 'string')
    throw new LearnerError('the delta is not one of a learner');
  return { width: width as number, classes, meta };
}

/** Copy the Gram matrix to the same features of a wider or narrower one. */
function widenGram(from: Sums, to: Sums): void {
  const width = Math.min(from.width, to.width);
  for (let row = 0, start = 0, other = 0; row < width; row += 1) {
    to.gram.set(from.gram.subarray(start, start + width - row), other);
    start += from.width - row;
    other += to.width - row;
  }
}

/** Add s s^T / n, rounded down, to the upper triangle. */
function addExpected(gram: Float64Array, after: Float64Array, before: Float64Array | undefined, count: number): void {
  const change = after.map((value, at) => value - (before?.[at] ?? 0));
  for (let row = 0, at = 0; row < change.length; row += 1)
    for (let column = row; column < change.length; column += 1, at += 1)
      gram[at]! += Math.floor((change[row]! * change[column]!) / count);
}
