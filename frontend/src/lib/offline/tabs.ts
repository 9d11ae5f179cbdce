/* What the tabs of this browser share beside the store: whose turn it is, and the news that something has changed. */

import type { Exclusively, Tabs } from './queue.svelte';

const NAME = 'online.queue';

/** Runs work while no other tab runs work of the same name. signal: ends the wait for that. Browsers offer locks over https
    and on localhost only; without them, tabs do not wait for each other. */
export async function inTurn(name: string, work: () => Promise<void>, signal?: AbortSignal) {
  if ('locks' in navigator) await navigator.locks.request(name, signal ? { signal } : {}, work);
  else await work();
}

/** Without locks two tabs may send the same item: it is learned once all the same, because it has one id. */
export const exclusively: Exclusively = (work) => inTurn(NAME, work);

/** Without a channel, which some private windows do not offer, a tab reads what others have changed when it sends. */
export function openTabs(name = NAME): Tabs {
  if (!('BroadcastChannel' in globalThis)) return { announce: () => {}, listen: () => {} };
  const channel = new BroadcastChannel(name);
  return {
    announce: () => channel.postMessage(null),
    listen: (onChange) => (channel.onmessage = onChange),
  };
}
