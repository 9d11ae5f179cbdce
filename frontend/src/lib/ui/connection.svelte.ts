/* Whether the service can be reached. After a call without an answer, it pings until there is one. */

import type { Pause } from './live_status.svelte';

const POLL_MS = 2000;

export class Connection {
  lost = $state(false);

  private pinging = false;
  private listeners: (() => void)[] = [];

  constructor(
    private ping: () => Promise<boolean>,
    private pause: Pause,
  ) {}

  /** Call back whenever the service can be reached again. */
  onRecovery(listener: () => void) {
    this.listeners.push(listener);
  }

  /** Report whether a call was answered. */
  report(answered: boolean) {
    if (answered) this.setLost(false);
    else void this.pingUntilAnswered();
  }

  private setLost(lost: boolean) {
    const recovers = this.lost && !lost;
    this.lost = lost;
    if (recovers) for (const listener of this.listeners) listener();
  }

  /** Ping once before reporting a loss, because a single call may fail. */
  private async pingUntilAnswered() {
    if (this.pinging) return;
    this.pinging = true;
    while (!(await this.ping())) {
      this.setLost(true);
      await this.pause(POLL_MS);
    }
    this.setLost(false);
    this.pinging = false;
  }
}
