/* Features of texts that are computed elsewhere, such as in a worker.

     texts of the replies --read--> worker --> known features --\
     questions, opinions --------------------------------------encode--> features, of a known text without the worker
*/

import type { TextReader } from '../offline/replies';

const MAX_RECENT = 50; // questions whose features are kept: one that is rated is encoded once
const BATCH = 8; // texts of one request: a question waits for one batch at most

export type Features = Map<string, Int8Array>;

export class PreparedEncoder implements TextReader {
  /* Those of `python -m benchmarks.offline_replies`, chosen with the splits `tune` and `tune2`. */
  readonly temperature = 14.9;
  readonly leastChance = 0.45;
  readonly leastLikeness = 0.5;

  private recent: Features = new Map();

  /** known: the features of the replies, computed before by an encoder of this epoch. */
  constructor(
    readonly epoch: string,
    private compute: (texts: readonly string[]) => Promise<Int8Array[]>,
    public known: Features = new Map(),
  ) {}

  /** Know exactly these texts, which are those of the replies. Returns whether any was missing. */
  async read(texts: readonly string[], onProgress: (done: number, total: number) => void): Promise<boolean> {
    const all = [...new Set(texts)];
    const missing = all.filter((text) => !this.known.has(text));
    for (let start = 0; start < missing.length; start += BATCH) {
      onProgress(start, missing.length);
      const batch = missing.slice(start, start + BATCH);
      for (const [place, found] of (await this.compute(batch)).entries()) this.known.set(batch[place]!, found);
    }
    this.known = new Map(all.map((text) => [text, this.known.get(text)!]));
    return missing.length > 0;
  }

  async encode(text: string): Promise<Int8Array> {
    const known = this.known.get(text) ?? this.recent.get(text);
    if (known !== undefined) return known;
    const [features] = await this.compute([text]);
    this.recent.set(text, features!);
    const [oldest] = this.recent.keys();
    if (this.recent.size > MAX_RECENT) this.recent.delete(oldest!);
    return features!;
  }
}
