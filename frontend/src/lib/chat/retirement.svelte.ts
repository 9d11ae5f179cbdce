/* Retiring a reply, and restoring it.

      retire -> saved -> the live version has learned it -> predicted again
   restore -/
*/

import type { Api } from '../api/chat';
import type { FeedbackContext, Recheck } from '../ui/feedback.svelte';
import type { Reply } from '../schema';
import type { RecheckResult } from '../ui/progress_wording';

export class Retirement {
  /** The last operation; null for none. */
  wanted = $state<'retire' | 'restore' | null>(null);
  saved = $state(false);
  sinceVersion = $state<string | null>(null);
  recheckResult = $state.raw<RecheckResult | null>(null);

  isRetired = $derived(this.wanted === 'retire');

  private count = 0;

  constructor(
    private context: Pick<FeedbackContext, 'live' | 'complain'> & {
      api: Pick<Api, 'retire' | 'restore'>;
    },
    private reply: Reply,
    private recheck: Recheck,
    /** The reply to the question; null for none. */
    private before: string | null,
  ) {}

  retire(): Promise<void> {
    return this.want('retire', () => this.context.api.retire(this.reply.id));
  }

  restore(): Promise<void> {
    return this.want('restore', () => this.context.api.restore(this.reply.id));
  }

  private async want(wanted: 'retire' | 'restore', send: () => Promise<number>) {
    if (this.wanted !== null && !this.saved) return; // one at a time, so that they arrive in order
    const [was, before] = [this.wanted, this.recheckResult ? this.recheckResult.after : this.before];
    const count = ++this.count;
    [this.wanted, this.saved, this.sinceVersion, this.recheckResult] = [wanted, false, null, null];
    try {
      const offset = await send();
      this.saved = true;
      void this.follow(count, offset, before);
    } catch (error) {
      this.wanted = was;
      this.saved = was !== null;
      this.context.complain(error);
    }
  }

  private async follow(count: number, offset: number, before: string | null) {
    const { live } = this.context;
    while (live.learnedUntil < offset) await live.awaitOffset('', offset);
    if (count !== this.count) return;
    this.sinceVersion = live.version;
    const after = await this.recheck(offset).catch(() => undefined); // the change is learned; only the comparison is missing
    if (count === this.count && after !== undefined) this.recheckResult = { before, after };
  }
}
