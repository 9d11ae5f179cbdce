/* A reply that is not to be given any more, and the way back.

   forget -> saved -> the live version has learned it -> asked again
   restore -/
*/

import type { Api } from './api';
import type { Around, AskAgain } from './feedback.svelte';
import type { Reply } from './schema';
import { tellRetirement, type Again } from './words';

export class Retirement {
  /** What was wanted last; null: nobody asked for anything. */
  wanted = $state<'forget' | 'restore' | null>(null);
  saved = $state(false);
  since = $state<string | null>(null);
  again = $state.raw<Again | null>(null);

  forgotten = $derived(this.wanted === 'forget');
  steps = $derived(tellRetirement(this));

  private count = 0;

  constructor(
    private around: Around<Api>,
    private reply: Reply,
    private ask: AskAgain,
    /** What the question got; null: no reply. */
    private before: string | null,
  ) {}

  forget(): Promise<void> {
    return this.want('forget', () => this.around.api.retire(this.reply.id));
  }

  restore(): Promise<void> {
    return this.want('restore', () => this.around.api.restore(this.reply.text));
  }

  private async want(wanted: 'forget' | 'restore', send: () => Promise<number>) {
    if (this.wanted !== null && !this.saved) return; // one at a time, or they could arrive the other way round
    const [was, before] = [this.wanted, this.again ? this.again.says : this.before];
    const count = ++this.count;
    [this.wanted, this.saved, this.since, this.again] = [wanted, false, null, null];
    try {
      const offset = await send();
      this.saved = true;
      void this.follow(count, offset, before);
    } catch (error) {
      this.wanted = was;
      this.saved = was !== null;
      this.around.complain(error);
    }
  }

  private async follow(count: number, offset: number, before: string | null) {
    const { live } = this.around;
    while (live.learnedUntil < offset) await live.reached('', offset);
    if (count !== this.count) return;
    this.since = live.version;
    const says = await this.ask(offset).catch(() => undefined); // it is so all the same; only this glimpse is missing
    if (count === this.count && says !== undefined) this.again = { before, says };
  }
}
