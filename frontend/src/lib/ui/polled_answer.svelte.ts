/* What a service answers, read again and again while it is shown. */

import type { Pause } from './live_status.svelte';
import { problemOf } from './problems';

export class PolledAnswer<Answer> {
  answer = $state.raw<Answer | null>(null);
  problem = $state<string | null>(null);
  #isWatched = false;

  constructor(
    readonly api: { get: () => Promise<Answer> },
    readonly everyMs: number,
    readonly pause: Pause,
  ) {}

  /** Load again and again until `stop`. */
  async watch() {
    this.#isWatched = true;
    while (this.#isWatched) {
      await this.load();
      await this.pause(this.everyMs);
    }
  }

  stop() {
    this.#isWatched = false;
  }

  /** What was read last stays shown while the service does not answer. */
  async load() {
    try {
      this.answer = await this.api.get();
      this.problem = null;
    } catch (error) {
      this.problem = problemOf(error);
    }
  }
}
