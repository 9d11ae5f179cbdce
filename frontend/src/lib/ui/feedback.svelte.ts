/* One feedback about one answer, from the click to the first answer that has learned it.

   send -> saved -> learned (or refused) -> predicted again
             \-> retract -> retracted -> un-learned -> predicted again
             \-> held -> accepted or rejected by a curator, who may take that back (onTakenBack)
   resume (given before the page was opened) -/

   Without the service it waits in this browser: send -> waiting -> saved, and so on.
*/

import type { FeedbackApi, Queued } from '../api/model';
import type { LiveStatus } from './live_status.svelte';
import type { Receipt, FeedbackContent, FeedbackProgress, StoredFeedback } from '../schema';
import { t } from '../messages';
import { problemOf } from './problems';
import { describeFeedback, EXPIRED, wordNote, type FeedbackState } from './progress_wording';

/** reason: why it was not learned: what the curator wrote, or the service where no person has decided. */
type Decided = Receipt & Pick<FeedbackProgress, 'reason'>;

/** The dependencies of feedback, passed in so that a test can replace them. */
export interface FeedbackContext<A extends FeedbackApi = FeedbackApi> {
  api: A;
  live: LiveStatus;
  newId: () => string;
  complain: (error: unknown) => void;
}

/** Repeat the prediction, unrecorded, with a version that has learned the event at `offset`; null for no answer. */
export type Recheck = (offset: number) => Promise<string | null>;

export class Feedback implements FeedbackState {
  saved = $state(false);
  /** Whether it waits in this browser until the service can be reached. */
  waiting = $state(false);
  /** Whether it waits for a curator. */
  held = $state(false);
  failed = $state<string | null>(null);
  refused = $state<string | null>(null);
  /** Whether a person has decided that it is not learned. */
  rejected = $state(false);
  /** Whether it waited for a curator, who has approved it. */
  approved = $state(false);
  /** What the curator who rejected it wrote; null for nothing. */
  rejectionNote = $state<string | null>(null);
  /** Whether a later one about the same answer counts instead. */
  replaced = $state(false);
  learned = $state<FeedbackState['learned']>(null);
  undo = $state<FeedbackState['undo']>('none');
  unlearnedVersion = $state<string | null>(null);
  recheckResult = $state.raw<FeedbackState['recheckResult']>(null);

  /** False once it was refused, lost, replaced or taken back. */
  isActive = $derived(this.failed === null && this.refused === null && !this.replaced && this.undo === 'none');
  steps = $derived(describeFeedback(this));

  private sent: Promise<void> = Promise.resolve();
  private earlier: Feedback[] = [];

  constructor(
    private context: FeedbackContext,
    private predictionId: string,
    readonly content: FeedbackContent,
    private recheck: Recheck,
    /** The answer before; null for none; undefined if not to be shown. */
    private before?: string | null,
    readonly id = context.newId(),
    /** Called when somebody else has retracted it after it was learned. */
    private onTakenBack?: () => unknown,
  ) {}

  /** Resume feedback stored by the server, and follow it until it is learned. */
  resume({ status, version, note }: StoredFeedback): this {
    this.saved = true;
    if (status === 'learned') {
      this.learned = { version: version ?? '?', freshness_ms: null };
      void this.watchRetraction();
    } else void this.follow({ id: this.id, offset: 0, status, reason: note ?? null });
    return this;
  }

  /** Follow it again after its rejection was undone. */
  reopen() {
    this.refused = this.rejectionNote = null;
    this.rejected = false;
    void this.follow({ id: this.id, offset: 0, status: 'held', reason: null });
  }

  /** Send it after earlier requests, and follow it. */
  send(earlier: Promise<unknown>): Promise<void> {
    this.sent = this.post(earlier);
    return this.sent;
  }

  /** Send it after earlier feedback about the same answer, which the service replaces with it. */
  sendInsteadOf(earlier: Feedback[]): Promise<void> {
    this.earlier = earlier;
    return this.send(Promise.all(earlier.map(({ sent }) => sent)));
  }

  async retract(): Promise<void> {
    const before = this.recheckResult && this.before !== undefined ? this.recheckResult.after : this.before;
    this.undo = 'requested';
    this.recheckResult = null;
    try {
      await this.sent;
      if (this.failed !== null) return; // it never reached the server
      const retraction = await this.context.api.retract(this.id);
      this.undo = 'saved';
      this.waiting = false;
      if (!this.held) void this.followUndo(retraction, before);
    } catch (error) {
      this.undo = 'none';
      throw error;
    }
  }

  private async post(earlier: Promise<unknown>) {
    const { api } = this.context;
    try {
      await earlier;
      const given = await api.giveFeedback({
        id: this.id,
        prediction_id: this.predictionId,
        ...this.content,
      });
      if ('delivered' in given) void this.followDelivery(given);
      else this.accept(given);
    } catch (error) {
      this.failed = problemOf(error);
      this.context.complain(error);
    }
  }

  private accept(receipt: Receipt) {
    this.saved = true;
    void this.follow(receipt);
  }

  /** While it waits, this device answers as if it were learned. */
  private async followDelivery({ delivered }: Queued) {
    this.waiting = true;
    for (const one of this.earlier) one.replaced = true;
    void this.runRecheck(0, this.before);
    const receipt = await delivered.catch((error: unknown) => {
      this.failed = problemOf(error);
      return null;
    });
    this.waiting = false;
    if (receipt !== null) this.accept(receipt);
    else if (this.isActive) this.undo = 'saved'; // removed from the list of what waits
  }

  private async follow(receipt: Decided) {
    const { live } = this.context;
    const decided: Decided = receipt.status === 'held' ? await this.awaitDecision(receipt) : receipt;
    if (decided.status === 'rejected') this.noteRejection(decided.reason ?? null);
    if (decided.status === 'rejected' || decided.status === 'retracted') return;
    this.approved = receipt.status === 'held';
    for (const one of this.earlier) one.replaced = true;
    const outcome = await live.awaitOutcome(decided);
    if (outcome.status === 'refused') this.refused = outcome.reason ?? t.ui.progress.noReason;
    if (outcome.status !== 'learned') return;
    this.learned = { version: outcome.version ?? '?', freshness_ms: outcome.freshness_ms ?? null };
    void this.watchRetraction();
    if (this.isActive) await this.runRecheck(outcome.offset, this.before);
  }

  private async watchRetraction() {
    if (!this.onTakenBack) return;
    await this.context.live.awaitRetraction(this.id);
    if (this.isActive) this.onTakenBack();
  }

  private noteRejection(reason: string | null) {
    this.rejected = reason !== EXPIRED;
    this.rejectionNote = reason !== null && this.rejected ? wordNote(reason) : null;
    this.refused = this.rejected ? (this.rejectionNote ?? t.ui.progress.rejected) : t.ui.progress.expired;
  }

  /** What is held replaces only what is held: the rest still counts, until a curator accepts it. */
  private async awaitDecision(receipt: Receipt): Promise<Decided> {
    this.held = true;
    const { complain, live } = this.context;
    for (const one of this.earlier) if (one.held && one.isActive) one.retract().catch(complain);
    const decided = await live.awaitDecision(receipt);
    this.held = false;
    return decided;
  }

  private async followUndo(retraction: Receipt | Queued, before: string | null | undefined) {
    const { live } = this.context;
    const receipt = 'delivered' in retraction ? await retraction.delivered.catch(() => null) : retraction;
    if (receipt === null) return;
    const { id, offset } = receipt;
    while (live.learnedUntil < offset) await live.awaitOffset(id, offset);
    this.unlearnedVersion = live.version;
    this.undo = 'learned';
    await this.runRecheck(offset, before);
  }

  private async runRecheck(offset: number, before: string | null | undefined) {
    const undo = this.undo;
    try {
      const after = await this.recheck(offset);
      if (this.undo === undo) this.recheckResult = { before, after };
    } catch {
      // The feedback is learned; only the comparison is missing.
    }
  }
}
