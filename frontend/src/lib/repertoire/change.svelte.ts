/* One change of the repertoire, from the request to the version that has learned it.

   send -> saved -> the live version has learned its offset
*/

import type { LiveStatus } from '../ui/live_status.svelte';
import { describeChange } from '../ui/progress_wording';
import { t } from '../messages';
import { detailOf } from '../ui/problems';

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
    readonly done = t.ui.progress.saved,
    readonly learned = t.ui.progress.learned,
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
      this.failed = detailOf(error);
      return false;
    }
  }

  private async follow(offset: number) {
    const { live } = this;
    while (live.learnedUntil < offset) await live.awaitOffset('', offset);
    this.sinceVersion = live.version;
  }
}
