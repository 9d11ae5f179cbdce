/* How many groups wait in the inboxes of all models, for the navigation and the choice of a model.

   It asks when the page is shown again, now and then, and when told.
*/

import { createContext } from 'svelte';
import type { InboxApi } from '../api/inbox';
import type { ModelCard } from '../schema';
import type { Pause } from '../ui/live_status.svelte';
import { coalesce } from '../ui/coalesce';

const POLL_MS = 10_000;
const REST_MS = 1000;

/** Groups by model. A model that does not answer counts as one without; if none does, it is an error. */
export async function countInboxes(
  cards: readonly ModelCard[],
  apiOf: (model: string) => Pick<InboxApi, 'count'>,
): Promise<ReadonlyMap<string, number>> {
  const counts = await Promise.allSettled(cards.map(({ id }) => apiOf(id).count()));
  if (cards.length > 0 && counts.every(({ status }) => status === 'rejected')) throw new Error('no inbox answers');
  return new Map(
    counts.map((count, place) => [cards[place]!.id, count.status === 'fulfilled' ? count.value.groups : 0]),
  );
}

export class InboxCounter {
  /** Groups by model; null until the service has answered, and for those who may not see the inbox. */
  byModel = $state.raw<ReadonlyMap<string, number> | null>(null);
  /** Of all models. */
  groups = $derived(this.byModel === null ? null : [...this.byModel.values()].reduce((sum, one) => sum + one, 0));

  readonly refresh: () => void;
  private isWatching = false;

  constructor(
    private load: () => Promise<ReadonlyMap<string, number>>,
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
    this.byModel = await this.load().catch(() => this.byModel); // asked again later
  }
}

export const [getInboxCounter, setInboxCounter] = createContext<InboxCounter>();
