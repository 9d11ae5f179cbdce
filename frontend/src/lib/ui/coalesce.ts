/* Joins many triggers into few calls: those that arrive during a call, or soon after, share the next one. */

import type { Pause } from './live_status.svelte';

/** Return a trigger. It calls `work` at once, or once more after the current call and its pause. */
export function coalesce(work: () => Promise<void>, pause: Pause, rest_ms: number): () => void {
  let busy = false;
  let again = false;

  const run = async () => {
    busy = true;
    do {
      again = false;
      await work();
      await pause(rest_ms);
    } while (again);
    busy = false;
  };
  return () => {
    again = true;
    if (!busy) void run();
  };
}
