/* Whether the service can be reached. After a call without an answer, it pings until there is one. */

import type { Pause } from './live_status.svelte';

const POLL_MS = 2000;

export class Connection {
  lost = $state(false);

  private pinging = false;

  constructor(
    private ping: () => Promise<boolean>,
    private pause: Pause,
  ) {}

  /** Report whether a call was answered. */
  report(answered: boolean) {
    if (answered) this.lost = false;
    else void this.pingUntilAnswered();
  }

  /** Ping once before reporting a loss, because a single call may fail. */
  private async pingUntilAnswered() {
    if (this.pinging) return;
    this.pinging = true;
    while ((this.lost = !(await this.ping()))) await this.pause(POLL_MS);
    this.pinging = false;
  }
}
