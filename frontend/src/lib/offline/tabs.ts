/* What the tabs of this browser share beside the store: whose turn it is, and the news that something has changed. */

import type { Exclusively, Tabs } from './queue.svelte';

const NAME = 'online.queue';

/** Browsers offer locks over https and on localhost only. Without them two tabs may send the same item: it is learned once
    all the same, because it has one id. */
export const exclusively: Exclusively = async (work) => {
  if ('locks' in navigator) await navigator.locks.request(NAME, work);
  else await work();
};

/** Without a channel, which some private windows do not offer, a tab reads what others have changed when it sends. */
export function openTabs(): Tabs {
  if (!('BroadcastChannel' in globalThis)) return { announce: () => {}, listen: () => {} };
  const channel = new BroadcastChannel(NAME);
  return {
    announce: () => channel.postMessage(null),
    listen: (onChange) => (channel.onmessage = onChange),
  };
}
