/* One thing said about one answer, from the click to the answer that has learned it.

   send -> saved -> learned (or refused) -> asked again
             \-> retract -> taken back -> un-learned -> asked again
   recall (it was said before the page was opened) -/
*/

import type { ModelApi } from './api';
import type { Live } from './live.svelte';
import type { Receipt, Said, SaidKept } from './schema';
import { messageOf, tell, type Told } from './words';

const NO_REASON = 'no reason was given';

/** What feedback needs around it; comes in through the door, so that a test can bring its own. */
export interface Around<A extends FeedbackApi = FeedbackApi> {
  api: A;
  live: Live;
  user: string;
  newId: () => string;
  complain: (error: unknown) => void;
}

export type FeedbackApi = Pick<ModelApi<unknown, unknown>, 'giveFeedback' | 'retract'>;

/** What the answer would be now, by a version that has learned the event at an offset; null: none. Leaves no trace. */
export type AskAgain = (offset: number) => Promise<string | null>;

export class Feedback implements Told {
  saved = $state(false);
  failed = $state<string | null>(null);
  refused = $state<string | null>(null);
  learned = $state<Told['learned']>(null);
  undo = $state<Told['undo']>('none');
  unlearnedIn = $state<string | null>(null);
  again = $state.raw<Told['again']>(null);

  /** Whether it still stands: what was refused, lost or taken back says nothing about the reply. */
  stands = $derived(this.failed === null && this.refused === null && this.undo === 'none');
  steps = $derived(tell(this));

  private sent: Promise<void> = Promise.resolve();

  constructor(
    private around: Around,
    private predictionId: string,
    readonly said: Said,
    private ask: AskAgain,
    /** What the answer was before; null: none; undefined: not to be told. */
    private before?: string | null,
    readonly id = around.newId(),
  ) {}

  /** Goes on with one that the server knows: what it has not learned yet is followed as if it were just sent. */
  recall({ status, version }: SaidKept): this {
    this.saved = true;
    if (status === 'learned') this.learned = { version: version ?? '?', freshness_ms: null };
    else void this.follow({ id: this.id, offset: 0, status });
    return this;
  }

  /** Sends it once what it replaces has been taken back, and follows it from there. */
  send(replaced: Promise<unknown>): Promise<void> {
    this.sent = this.post(replaced);
    return this.sent;
  }

  async retract(): Promise<void> {
    const before = this.again && this.before !== undefined ? this.again.says : this.before;
    this.undo = 'asked';
    this.again = null;
    try {
      await this.sent;
      if (this.failed !== null) return; // it never reached the server, so there is nothing to take back
      const receipt = await this.around.api.retract(this.id);
      this.undo = 'saved';
      void this.followUndo(receipt, before);
    } catch (error) {
      this.undo = 'none';
      throw error;
    }
  }

  private async post(replaced: Promise<unknown>) {
    const { api, user } = this.around;
    try {
      await replaced;
      const receipt = await api.giveFeedback({
        id: this.id,
        prediction_id: this.predictionId,
        user,
        ...this.said,
      });
      this.saved = true;
      void this.follow(receipt);
    } catch (error) {
      this.failed = messageOf(error);
      this.around.complain(error);
    }
  }

  private async follow(receipt: Receipt) {
    const fate = await this.around.live.settled(receipt);
    if (fate.status === 'refused') this.refused = fate.reason ?? NO_REASON;
    if (fate.status !== 'learned') return;
    this.learned = { version: fate.version ?? '?', freshness_ms: fate.freshness_ms ?? null };
    if (this.stands) await this.askAgain(receipt.offset, this.before);
  }

  private async followUndo({ id, offset }: Receipt, before: string | null | undefined) {
    const { live } = this.around;
    while (live.learnedUntil < offset) await live.reached(id, offset);
    this.unlearnedIn = live.version;
    this.undo = 'learned';
    await this.askAgain(offset, before);
  }

  private async askAgain(offset: number, before: string | null | undefined) {
    const undo = this.undo;
    try {
      const says = await this.ask(offset);
      if (this.undo === undo) this.again = { before, says };
    } catch {
      // The feedback is learned all the same; only this glimpse of it is missing.
    }
  }
}
