/* Feedback that waits for a curator: a correction or a rating, with who gave it and why it is held.

   held -> HeldFeedback -> accept: it is learned / reject: it never is -> held, without it
*/

import type { RepertoireApi } from '../api';
import type { HeldItem } from '../schema';
import { coalesce } from '../ui/coalesce';
import type { LiveStatus, Pause } from '../ui/live_status.svelte';
import { messageOf } from '../ui/wording';
import { Change } from './change.svelte';

const REST_MS = 1000;
const POLL_MS = 10_000; // no event tells of new ones

interface Dependencies {
  api: Pick<RepertoireApi, 'held' | 'acceptHeld' | 'rejectHeld'>;
  live: LiveStatus;
  pause: Pause;
}

export class HeldFeedback {
  /** The oldest of them; null until the service has answered. */
  items = $state.raw<HeldItem[] | null>(null);
  /** The number of all; null until the service has answered. */
  count = $state<number | null>(null);
  problem = $state<string | null>(null);
  /** The last acceptance. */
  change = $state.raw<Change | null>(null);
  /** The id of the item that is being decided; null for none. */
  deciding = $state<string | null>(null);
  /** What was decided last, for screen readers. */
  news = $state('');

  readonly refresh: () => void;
  private watches = 0;

  constructor(private context: Dependencies) {
    this.refresh = coalesce(() => this.load(), context.pause, REST_MS);
  }

  /** Ask for new items from time to time, until `stop`. */
  async watch(): Promise<void> {
    const watch = ++this.watches;
    do {
      this.refresh();
      await this.context.pause(POLL_MS);
    } while (watch === this.watches);
  }

  stop() {
    this.watches += 1;
  }

  async load(): Promise<void> {
    try {
      const { held, count } = await this.context.api.held();
      [this.items, this.count, this.problem] = [held, count, null];
    } catch (error) {
      this.problem = messageOf(error);
    }
  }

  /** Return whether it was accepted. */
  async accept(item: HeldItem): Promise<boolean> {
    const { api, live } = this.context;
    return this.decide(item, 'Accepted', async () => {
      const { offset } = await api.acceptHeld(item.id);
      this.change = new Change(live, () => Promise.resolve(offset), 'accepted');
    });
  }

  /** Return whether it was rejected. */
  async reject(item: HeldItem): Promise<boolean> {
    return this.decide(item, 'Rejected', async () => {
      await this.context.api.rejectHeld(item.id);
      this.change = null;
    });
  }

  private async decide({ id }: HeldItem, news: string, send: () => Promise<void>) {
    if (this.deciding !== null) return false;
    [this.deciding, this.problem] = [id, null];
    let problem: string | null = null;
    try {
      await send();
    } catch (error) {
      problem = messageOf(error); // another curator may have decided: the list is loaded again
    }
    await this.load();
    this.deciding = null;
    if (problem !== null) this.problem = problem;
    this.news = problem === null ? `${news}. ${this.count ?? 0} left.` : '';
    return problem === null;
  }
}
