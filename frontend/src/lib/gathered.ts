/* Asks once for many reasons: news that come while a question is out, or soon after, share the next one. */

import type { Pause } from './live.svelte';

/** Calls `ask` now; and, where it is called again before the rest is over, once more after it. */
export function gathered(ask: () => Promise<void>, pause: Pause, rest_ms: number): () => void {
  let busy = false;
  let again = false;

  const run = async () => {
    busy = true;
    do {
      again = false;
      await ask();
      await pause(rest_ms);
    } while (again);
    busy = false;
  };
  return () => {
    again = true;
    if (!busy) void run();
  };
}
