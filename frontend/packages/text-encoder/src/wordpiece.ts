/* Splits texts into the tokens that BERT reads: the ids that the service's tokenizer gives.

   text -> without control characters, accents and capitals -> words and punctuation -> the longest known pieces -> ids

   Follows Devlin et al. 2018 (the uncased vocabulary). Where browsers know a newer version of Unicode than the service,
   a letter of that version may be read otherwise.
*/

const [UNKNOWN, FIRST, LAST] = ['[UNK]', '[CLS]', '[SEP]'];
const SPECIAL = /(\[PAD\]|\[UNK\]|\[CLS\]|\[SEP\]|\[MASK\])/;
const MAX_WORD = 100; // code points; a longer word is unknown
/** What Python's str.split() separates words by. */
// eslint-disable-next-line no-control-regex -- separators of files and records are spaces in Python
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
const DROPPED = /[\0\ufffd\p{Cc}\p{Cf}\p{Co}]/gu;
const ACCENTS = /\p{Mn}/gu;
const PUNCTUATION = /([!-/:-@[-`{-~\p{P}])/u;
/** Characters that are words by themselves: those of Chinese, in the ranges that BERT knows. */
const IDEOGRAPHS =
  /([\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}])/gu;

export class WordPiece {
  private ids: Map<string, number>;

  /** vocabulary: a token in each line; its place is its id. maxTokens: of a text, with the first and the last one. */
  constructor(
    vocabulary: string,
    private maxTokens = 256,
  ) {
    this.ids = new Map(vocabulary.split('\n').map((token, place) => [token.replace(/\r$/, ''), place]));
    for (const token of [UNKNOWN, FIRST, LAST])
      if (!this.ids.has(token)) throw new Error(`The vocabulary has no token ${token}.`);
  }

  /** The ids of a text, of which what is too long is left out. */
  encode(text: string): number[] {
    const words = text
      .split(SPACES)
      .filter((word) => word !== '')
      .join(' ');
    const ids = words.split(SPECIAL).flatMap((part) => this.encodePart(part));
    return [this.idOf(FIRST), ...ids.slice(0, this.maxTokens - 2), this.idOf(LAST)];
  }

  private encodePart(part: string): number[] {
    if (SPECIAL.test(part)) return [this.idOf(part)];
    return splitWords(normalise(part)).flatMap((word) => this.encodeWord(word));
  }

  private encodeWord(word: string): number[] {
    const letters = [...word];
    if (letters.length > MAX_WORD) return [this.idOf(UNKNOWN)];
    const pieces: number[] = [];
    for (let start = 0; start < letters.length;) {
      const found = this.longest(letters, start);
      if (found === null) return [this.idOf(UNKNOWN)];
      pieces.push(found.id);
      start = found.end;
    }
    return pieces;
  }

  private longest(letters: string[], start: number): { id: number; end: number } | null {
    const prefix = start > 0 ? '##' : '';
    for (let end = letters.length; end > start; end -= 1) {
      const id = this.ids.get(prefix + letters.slice(start, end).join(''));
      if (id !== undefined) return { id, end };
    }
    return null;
  }

  private idOf(token: string): number {
    return this.ids.get(token) ?? this.ids.get(UNKNOWN)!;
  }
}

function normalise(text: string): string {
  const clean = text.replace(DROPPED, '').replace(IDEOGRAPHS, ' $1 ');
  const letters = [...clean.normalize('NFD').replace(ACCENTS, '')];
  return letters.map((letter) => letter.toLowerCase()).join(''); // one by one: a sigma has no form for the end of a word
}

/** Words, and each character of punctuation as a word. */
const splitWords = (text: string): string[] =>
  text
    .split(SPACES)
    .flatMap((word) => word.split(PUNCTUATION))
    .filter((word) => word !== '');
