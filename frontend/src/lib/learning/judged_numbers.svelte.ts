/* How many answers had been judged up to an offset, exactly, where the thinned curve does not say.

   at(offset) --unknown offsets, gathered--> service -> known, which never changes -> whoever has asked is derived again
*/

import { SvelteMap } from 'svelte/reactivity';
import type { LearningApi } from '../api/learning';

const MOST = 200; // offsets in a request

export class JudgedNumbers {
  private known = new SvelteMap<number, number>();
  private asked: ReadonlySet<number> = new Set();
  /** Not counted yet when the service was asked, or the request failed. */
  private unanswered: ReadonlySet<number> = new Set();
  private isLoading = false;

  constructor(private api: Pick<LearningApi, 'judgedUntil'>) {}

  /** null: not known yet; the service is asked, and who reads this is derived again. */
  at(offset: number): number | null {
    const number = this.known.get(offset);
    if (number !== undefined) return number;
    if (!this.unanswered.has(offset)) this.ask([offset]);
    return null;
  }

  /** Ask again what the service could not answer. */
  retry() {
    const again = this.unanswered;
    this.unanswered = new Set();
    this.ask(again);
  }

  /** Forget everything: the log is another one, or is counted again. */
  forget() {
    this.known.clear();
  }

  private ask(offsets: Iterable<number>) {
    this.asked = new Set([...this.asked, ...offsets]);
    if (this.asked.size > 0 && !this.isLoading) void this.load();
  }

  private async load() {
    this.isLoading = true;
    await Promise.resolve(); // offsets that are asked for at the same time share a request
    while (this.asked.size > 0) {
      const offsets = [...this.asked].slice(0, MOST);
      const numbers = await this.api.judgedUntil(offsets).catch(() => offsets.map(() => null));
      this.asked = new Set([...this.asked].filter((offset) => !offsets.includes(offset)));
      const missing = offsets.filter((_, place) => numbers[place] === null);
      this.unanswered = new Set([...this.unanswered, ...missing]);
      offsets.forEach((offset, place) => {
        const number = numbers[place];
        if (typeof number === 'number') this.known.set(offset, number);
      });
    }
    this.isLoading = false;
  }
}
