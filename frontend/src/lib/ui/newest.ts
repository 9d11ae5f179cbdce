/* Keeps one request at a time: the newest one. The one before is aborted, so that a late answer is never shown. */

export class Newest {
  private running: AbortController | null = null;

  /** Abort what was begun before; the signal of the new request. */
  begin(): AbortSignal {
    this.running?.abort();
    this.running = new AbortController();
    return this.running.signal;
  }
}
