/* One change of the repertoire, from the press to the version that has learned it.

   send -> saved -> the live version has learned its offset
*/

import type { Live } from './live.svelte';
import { messageOf, tellChange } from './words';

const LEARNED = 'learned in';

export class Change {
  saved = $state(false);
  failed = $state<string | null>(null);
  /** The version since which it is so. */
  since = $state<string | null>(null);
  steps = $derived(tellChange(this));

  /** Whether it was saved, once that is known. */
  readonly sent: Promise<boolean>;

  constructor(
    private live: Live,
    /** Gives the offset from which on it is so. */
    send: () => Promise<number>,
    readonly done = 'saved',
    readonly learned = LEARNED,
  ) {
    this.sent = this.send(send);
  }

  private async send(send: () => Promise<number>): Promise<boolean> {
    try {
      const offset = await send();
      this.saved = true;
      void this.follow(offset);
      return true;
    } catch (error) {
      this.failed = messageOf(error);
      return false;
    }
  }

  private async follow(offset: number) {
    const { live } = this;
    while (live.learnedUntil < offset) await live.reached('', offset);
    this.since = live.version;
  }
}
