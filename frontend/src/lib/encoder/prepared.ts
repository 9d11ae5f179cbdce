/* Features of texts that are computed elsewhere, such as in a worker, before they are read.

     texts --prepare: those that are new--> worker --> features by text --encode--> at once
*/

import type { TextReader } from '../offline/replies';

const BATCH = 8; // texts of one request: a question waits for one batch at most

export type Features = Map<string, Int8Array>;

export class PreparedEncoder implements TextReader {
  /* Those of `python -m benchmarks.offline_replies`, chosen with the splits `tune` and `tune2`. */
  readonly temperature = 14.9;
  readonly leastChance = 0.45;
  readonly leastLikeness = 0.5;

  /** features: computed before, by an encoder of this epoch. */
  constructor(
    readonly epoch: string,
    private compute: (texts: readonly string[]) => Promise<Int8Array[]>,
    private features: Features = new Map(),
  ) {}

  /** Compute what is missing. Returns whether anything was. */
  async prepare(
    texts: readonly string[],
    onProgress: (done: number, total: number) => void = () => {},
  ): Promise<boolean> {
    const missing = [...new Set(texts)].filter((text) => !this.features.has(text));
    for (let start = 0; start < missing.length; start += BATCH) {
      onProgress(start, missing.length);
      const batch = missing.slice(start, start + BATCH);
      for (const [place, found] of (await this.compute(batch)).entries())
        this.features.set(batch[place]!, found);
    }
    return missing.length > 0;
  }

  encode(text: string): Int8Array {
    const found = this.features.get(text);
    if (found === undefined) throw new Error('The features of this text were not prepared.');
    return found;
  }

  /** The features of texts that were prepared. */
  select(texts: readonly string[]): Features {
    return new Map(texts.map((text) => [text, this.encode(text)]));
  }
}
