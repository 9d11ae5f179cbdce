/* One change of the repertoire, from the request to the version that has learned it.

   send -> saved -> the live version has learned its offset
*/

import type { LiveStatus } from '../ui/live_status.svelte';
import { describeChange } from '../ui/progress_wording';
import { messageOf } from '../ui/wording';

const LEARNED = 'learned in';

export class Change {
  saved = $state(false);
  failed = $state<string | null>(null);
  /** The first version that includes the change. */
  sinceVersion = $state<string | null>(null);
  steps = $derived(describeChange(this));

  /** Resolves to whether the change was saved. */
  readonly sent: Promise<boolean>;

  constructor(
    private live: LiveStatus,
    /** Sends the change and returns its offset. */
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
    while (live.learnedUntil < offset) await live.awaitOffset('', offset);
    this.sinceVersion = live.version;
  }
}
