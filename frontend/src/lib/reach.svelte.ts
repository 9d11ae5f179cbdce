/* Whether the service can be reached. Every call says how it went; once one had no answer, it is asked until there is one. */

import type { Pause } from './live.svelte';

const AGAIN_MS = 2000;

export class Reach {
  lost = $state(false);

  private asking = false;

  constructor(
    private answers: () => Promise<boolean>,
    private pause: Pause,
  ) {}

  /** A call had an answer, or none. */
  heard(answered: boolean) {
    if (answered) this.lost = false;
    else void this.ask();
  }

  /** Asks at once before it says so: one call that broke off is not the end of the service. */
  private async ask() {
    if (this.asking) return;
    this.asking = true;
    while ((this.lost = !(await this.answers()))) await this.pause(AGAIN_MS);
    this.asking = false;
  }
}
