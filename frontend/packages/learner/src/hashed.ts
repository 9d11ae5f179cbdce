/* Text features without a network, the same as online/models/encoders/hashed.py, number for number.

   text -> lowercase words -> {words, pairs, parts of 2 to 4 characters} --hash--> signed sums [384] -> int8 [384]

   Integers, one square root and divisions, which every machine rounds alike. Letters and case come from a fixed table,
   because Unicode's grows from version to version.
*/

import { roundHalfEven } from './columns.js';

/** What turns a text into the features of a learner. */
export interface FeatureEncoder {
  /** The name of the features: `reads` of a learner that is created for them. */
  readonly epoch: string;
  encode(text: string): Int8Array | Promise<Int8Array>;
}

export const HASHED_EPOCH = 'hashed-1-int8x512';
export const TEXT_WIDTH = 384;

const SCALE = 512;
const [WORD, PAIR, PART] = [1, 2, 3] as const; // kinds of a term
const WORD_WEIGHT = 2; // other terms count once
const PARTS = [2, 3, 4]; // characters
const SPACE = 0x20;
const [APOSTROPHE, CURLY_APOSTROPHE] = [0x27, 0x2019] as const;
/** Code points between words, first and last; all others belong to one. */
const SEPARATORS = [
  [0x00, 0x26],
  [0x28, 0x2f],
  [0x3a, 0x40],
  [0x5b, 0x60],
  [0x7b, 0xa9],
  [0xab, 0xb4],
  [0xb6, 0xb9],
  [0xbb, 0xbf],
  [0xd7, 0xd7],
  [0xf7, 0xf7],
  [0x2000, 0x206f],
  [0x3000, 0x303f],
  [0xfe00, 0xfe0f],
  [0xff01, 0xff0f],
] as const;
/** Capital letters, first and last, and the distance to their small ones: Latin, Greek, Cyrillic. */
const CAPITALS = [
  [0x41, 0x5a, 32],
  [0xc0, 0xd6, 32],
  [0xd8, 0xde, 32],
  [0x391, 0x3a1, 32],
  [0x3a3, 0x3ab, 32],
  [0x400, 0x40f, 80],
  [0x410, 0x42f, 32],
] as const;

/** The features of a text; zeros if it has no word. */
export function hashText(text: string): Int8Array {
  const sums = new Int32Array(TEXT_WIDTH);
  const add = (kind: number, codes: readonly number[], weight = 1) => {
    const mixed = mix(kind, codes);
    sums[(mixed >>> 1) % TEXT_WIDTH]! += mixed & 1 ? weight : -weight;
  };
  const words = splitWords(text);
  words.forEach((word, place) => {
    add(WORD, word, WORD_WEIGHT);
    const edged = [SPACE, ...word, SPACE];
    for (const length of PARTS)
      for (let start = 0; start + length <= edged.length; start += 1) add(PART, edged.slice(start, start + length));
    const next = words[place + 1];
    if (next) add(PAIR, [...word, SPACE, ...next]);
  });
  const length = Math.sqrt(sums.reduce((sum, each) => sum + each * each, 0)) || 1;
  return Int8Array.from(sums, (each) => {
    const scaled = roundHalfEven((each * SCALE) / length);
    return Math.max(-127, Math.min(127, scaled));
  });
}

/** Hashed features, as a `FeatureEncoder`. */
export const hashed = { epoch: HASHED_EPOCH, encode: hashText } satisfies FeatureEncoder;

/** The words of a text, in small letters, as code points. */
function splitWords(text: string): number[][] {
  const words: number[][] = [];
  let word: number[] = [];
  for (const character of text) {
    const code = fold(character.codePointAt(0)!);
    if (code) word.push(code);
    else if (word.length > 0) {
      words.push(word);
      word = [];
    }
  }
  return word.length > 0 ? [...words, word] : words;
}

/** The code point of the small letter; 0 for what stands between words. */
function fold(code: number): number {
  if (code === CURLY_APOSTROPHE) return APOSTROPHE;
  if (SEPARATORS.some(([first, last]) => first <= code && code <= last)) return 0;
  const range = CAPITALS.find(([first, last]) => first <= code && code <= last);
  return code + (range?.[2] ?? 0);
}

/** FNV-1a over 32-bit code points, then the last mixing steps of MurmurHash3. */
function mix(kind: number, codes: readonly number[]): number {
  let mixed = 0x811c9dc5 ^ kind;
  for (const code of codes) mixed = Math.imul(mixed ^ code, 0x01000193);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
