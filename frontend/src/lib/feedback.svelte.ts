/* One thing said about one reply, from the click to the reply that has learned it.

   send -> saved -> learned (or refused) -> asked again
             \-> retract -> taken back -> un-learned -> asked again
*/

import type { Api } from './api';
import type { Live } from './live.svelte';
import type { Receipt, Reply } from './schema';
import { tell, type Told } from './words';

const ASK_AGAIN_MS = 2000;

export type Said = { reward: 0 | 1 } | { correction: string };

/** What feedback needs around it; comes in through the door, so that a test can bring its own. */
export interface Around {
  api: Api;
  live: Live;
  user: string;
  newId: () => string;
  complain: (error: unknown) => void;
}

export class Feedback implements Told {
  readonly id: string;
  saved = $state(false);
  failed = $state<string | null>(null);
  refused = $state<string | null>(null);
  learned = $state<Told['learned']>(null);
  undo = $state<Told['undo']>('none');
  unlearnedIn = $state<string | null>(null);
  again = $state.raw<{ reply: Reply | null } | null>(null);

  /** Whether it still stands: what was refused, lost or taken back says nothing about the reply. */
  stands = $derived(this.failed === null && this.refused === null && this.undo === 'none');
  steps = $derived(tell(this));

  private sent: Promise<void> = Promise.resolve();

  constructor(
    private around: Around,
    private question: string,
    private predictionId: string,
    readonly said: Said,
  ) {
    this.id = around.newId();
  }

  /** Sends it once what it replaces has been taken back, and follows it from there. */
  send(replaced: Promise<unknown>): Promise<void> {
    this.sent = this.post(replaced);
    return this.sent;
  }

  async retract(): Promise<void> {
    this.undo = 'asked';
    this.again = null;
    try {
      await this.sent;
      if (this.failed !== null) return; // it never reached the server, so there is nothing to take back
      const receipt = await this.around.api.retract(this.id);
      this.undo = 'saved';
      void this.followUndo(receipt);
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
      this.failed = error instanceof Error ? error.message : String(error);
      this.around.complain(error);
    }
  }

  private async follow(receipt: Receipt) {
    const fate = await this.around.live.settled(receipt);
    if (fate.status === 'refused') this.refused = fate.reason ?? 'no reason was given';
    if (fate.status !== 'learned') return;
    this.learned = { version: fate.version ?? '?', freshness_ms: fate.freshness_ms ?? null };
    if (this.stands) await this.askAgain(receipt.offset);
  }

  private async followUndo({ id, offset }: Receipt) {
    const { live } = this.around;
    while (live.learnedUntil < offset) await live.reached(id, offset);
    this.unlearnedIn = live.version;
    this.undo = 'learned';
    await this.askAgain(offset);
  }

  /** A dry run: shows what changed, and leaves no prediction behind. */
  private async askAgain(offset: number) {
    const { api, user } = this.around;
    const request = { instances: [this.question], user, record: false, min_offset: offset, timeout_ms: ASK_AGAIN_MS };
    const undo = this.undo;
    try {
      const { predictions } = await api.predict(request);
      const [prediction] = predictions;
      if (prediction && this.undo === undo) this.again = { reply: prediction.reply };
    } catch {
      // The feedback is learned all the same; only this glimpse of it is missing.
    }
  }
}
