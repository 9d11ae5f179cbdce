/* A file of integer sums: safetensors that every program of that format reads.

   counts [2, C]   sums [2, C, D]   gram [D (D + 1) / 2]        each in the narrowest of int8, int16, int32 and int64
   metadata "sums": JSON with format, classes, and how inputs become features
*/

import { LearnerError } from './errors.js';
import { Sums } from './sums.js';

export type Meta = Record<string, unknown>;

const FORMAT = 1;
const DTYPES = ['I8', 'I16', 'I32', 'I64'] as const;
type Dtype = (typeof DTYPES)[number];

interface Entry {
  dtype: Dtype;
  shape: number[];
  data_offsets: [number, number];
}

export function writeSums(sums: Sums, meta: Meta): Uint8Array<ArrayBuffer> {
  const [count, width] = [sums.classes.size, sums.width];
  const [all, first, second] = [sums.flatten(), 2 * count, 2 * count * (1 + width)];
  const tensors = {
    counts: { shape: [2, count], values: all.subarray(0, first) },
    sums: { shape: [2, count, width], values: all.subarray(first, second) },
    gram: { shape: [sums.gram.length], values: sums.gram },
  };
  const packed = Object.entries(tensors).map(([name, { shape, values }]) => ({
    name,
    shape,
    ...narrow(values),
  }));
  packed.sort((one, other) => DTYPES.indexOf(other.dtype) - DTYPES.indexOf(one.dtype)); // aligned, as the format asks for
  const text = JSON.stringify({ ...meta, format: FORMAT, classes: [...sums.classes.keys()] });
  const header: Record<string, unknown> = { __metadata__: { sums: text } };
  let end = 0;
  for (const { name, dtype, shape, bytes } of packed)
    header[name] = { dtype, shape, data_offsets: [end, (end += bytes.length)] };
  const title = new TextEncoder().encode(JSON.stringify(header));
  const start = 8 + Math.ceil(title.length / 8) * 8;
  const file = new Uint8Array(start + end).fill(0x20, 8, start);
  new DataView(file.buffer).setBigUint64(0, BigInt(start - 8), true);
  file.set(title, 8);
  let at = start;
  for (const { bytes } of packed) {
    file.set(bytes, at);
    at += bytes.length;
  }
  return file;
}

function narrow(values: ArrayLike<number>): { dtype: Dtype; bytes: Uint8Array } {
  let [low, high] = [0, 0];
  for (let at = 0; at < values.length; at += 1) {
    low = Math.min(low, values[at]!);
    high = Math.max(high, values[at]!);
  }
  const fits = (bits: number) => -(2 ** (bits - 1)) <= low && high < 2 ** (bits - 1);
  const array = fits(8)
    ? Int8Array.from(values)
    : fits(16)
      ? Int16Array.from(values)
      : fits(32)
        ? Int32Array.from(values)
        : BigInt64Array.from(Array.from(values, BigInt));
  const dtype = DTYPES[Math.log2(array.BYTES_PER_ELEMENT)]!;
  return { dtype, bytes: new Uint8Array(array.buffer) };
}

/** Read a file of sums. Anything else is refused; whether the sums are those of examples is not checked. */
export function readSums(file: Uint8Array): { sums: Sums; meta: Meta } {
  const { header, body } = readHeader(file);
  const { format, classes, ...meta } = readMeta(header);
  if (format !== FORMAT || !isListOfNames(classes))
    throw new LearnerError(`a file of sums has format ${FORMAT} and a list of different classes in its metadata`);
  const width = findWidth(header['sums']);
  const counts = readTensor(header, body, 'counts', [2, classes.length]);
  const values = readTensor(header, body, 'sums', [2, classes.length, width]);
  const sums = new Sums(width);
  sums.gram.set(readTensor(header, body, 'gram', [sums.gram.length]));
  sums.reserve([counts, values, sums.gram].reduce(largest, 0));
  classes.forEach((label, place) => {
    const own = sums.addClass(label);
    for (const side of [0, 1] as const) {
      const row = side * classes.length + place;
      own.counts[side] = counts[row]!;
      own.sums[side].set(values.subarray(row * width, (row + 1) * width));
    }
  });
  return { sums, meta };
}

const NOT_A_FILE = 'not a safetensors file with metadata "sums"';

export function readHeader(file: Uint8Array): { header: Meta; body: Uint8Array } {
  if (file.length < 8) throw new LearnerError(NOT_A_FILE);
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const end = 8 + Number(view.getBigUint64(0, true));
  if (end > file.length) throw new LearnerError(NOT_A_FILE);
  const header = parseObject(new TextDecoder().decode(file.subarray(8, end)));
  return { header, body: file.subarray(end) };
}

function readMeta(header: Meta): Meta {
  const metadata = header['__metadata__'];
  if (!isObject(metadata) || typeof metadata['sums'] !== 'string') throw new LearnerError(NOT_A_FILE);
  return parseObject(metadata['sums']);
}

function parseObject(text: string): Meta {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null; // refused below
  }
  if (!isObject(value)) throw new LearnerError(NOT_A_FILE);
  return value;
}

export const isObject = (value: unknown): value is Meta =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isListOfNames = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string') && new Set(value).size === value.length;

function findWidth(entry: unknown): number {
  const shape = isObject(entry) ? entry['shape'] : null;
  const width: unknown = Array.isArray(shape) ? shape[2] : null;
  if (!Number.isInteger(width) || (width as number) < 0 || (width as number) > MOST_FEATURES)
    throw new LearnerError('tensor "sums" must have the shape [2, classes, features]');
  return width as number;
}

const MOST_FEATURES = 16_384; // a Gram matrix of 1 GB

function readTensor(header: Meta, body: Uint8Array, name: string, shape: number[]): Float64Array {
  const entry = header[name] as Partial<Entry> | undefined;
  const size = 2 ** DTYPES.indexOf(entry?.dtype as Dtype);
  const [start, end] = entry?.data_offsets ?? [-1, -1];
  const count = shape.reduce((product, length) => product * length, 1);
  const isWhole = size >= 1 && start >= 0 && end <= body.length && end - start === count * size;
  if (!isWhole || String(entry?.shape) !== String(shape))
    throw new LearnerError(`the file must have integers of the shape [${String(shape)}] as ${name}`);
  const bytes = new Uint8Array(body.subarray(start, end)).buffer; // `slice` of a Buffer of Node copies nothing
  if (size === 8) return Float64Array.from(new BigInt64Array(bytes), Number);
  return Float64Array.from(
    size === 1 ? new Int8Array(bytes) : size === 2 ? new Int16Array(bytes) : new Int32Array(bytes),
  );
}

/** A tensor that is left out where it is zero. */
export const readOptional = (header: Meta, body: Uint8Array, name: string, shape: number[]) =>
  name in header
    ? readTensor(header, body, name, shape)
    : new Float64Array(shape.reduce((product, length) => product * length, 1));

function largest(before: number, values: Float64Array): number {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), before);
}
