/* Waiting, as the pages do it. Classes of `lib/` are given it, so that their tests need no clock. */

import type { Pause } from './live_status.svelte';

export const pause: Pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
