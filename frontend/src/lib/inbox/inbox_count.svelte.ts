/* How many groups wait in the inbox, for the navigation. It asks when the page is shown again, now and then, and when told. */

import type { InboxCount } from '../schema';
import type { Pause } from '../ui/live_status.svelte';
import { coalesce } from '../ui/coalesce';

const POLL_MS = 10_000;
const REST_MS = 1000;

export class InboxCounter {
  /** null until the service has answered, and for those who may not see the inbox. */
  groups = $state<number | null>(null);

  readonly refresh: () => void;
  private isWatching = false;

  constructor(
    private load: () => Promise<InboxCount>,
    private pause: Pause,
    /** Whether anybody looks at the page. */
    private isVisible: () => boolean = () => true,
  ) {
    this.refresh = coalesce(() => this.ask(), pause, REST_MS);
  }

  /** Ask from now on. Further calls do nothing. */
  async watch(): Promise<void> {
    if (this.isWatching) return;
    this.isWatching = true;
    for (;;) {
      if (this.isVisible()) this.refresh();
      await this.pause(POLL_MS);
    }
  }

  private async ask(): Promise<void> {
    const count = await this.load().catch(() => null); // asked again later
    this.groups = count?.groups ?? this.groups;
  }
}
