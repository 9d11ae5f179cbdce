/* Keeps one request at a time: the newest one. The one before is aborted, so that a late answer is never shown. */

import type { Pause } from './live_status.svelte';

/** A search begins when nothing was typed for so long. */
export const TYPING_MS = 200;

export class Newest {
  private running: AbortController | null = null;

  /** Abort what was begun before; the signal of the new request. */
  begin(): AbortSignal {
    this.running?.abort();
    this.running = new AbortController();
    return this.running.signal;
  }

  /** The same, after a pause in typing; null where another request was begun meanwhile. */
  async beginAfterTyping(pause: Pause): Promise<AbortSignal | null> {
    const signal = this.begin();
    await pause(TYPING_MS);
    return signal.aborted ? null : signal;
  }
}
