/* One question, the reply it got, and all that was said about that reply. */

import { Feedback, type Around, type Said } from './feedback.svelte';
import type { Candidate, PredictResponse, Reply } from './schema';

const CHIPS = 3;

const isThumb = ({ said }: Feedback) => 'reward' in said;
const isCorrection = ({ said }: Feedback) => 'correction' in said;

export class Turn {
  readonly id: string;
  readonly version: string;
  readonly reply: Reply | null;
  readonly chips: Candidate[];

  given = $state<Feedback[]>([]);
  /** The one whose life the line under the reply tells: the last that was given or taken back. */
  latest = $state.raw<Feedback | null>(null);
  /** How often the teach box was asked for: each time moves the focus there; 0 leaves it closed. */
  teachAsked = $state(0);
  teachDraft = $state('');

  thumb = $derived(this.given.findLast((one) => one.stands && isThumb(one)) ?? null);
  correction = $derived(this.given.findLast((one) => one.stands && isCorrection(one)) ?? null);
  reward = $derived(this.thumb && 'reward' in this.thumb.said ? this.thumb.said.reward : null);
  taught = $derived(this.correction && 'correction' in this.correction.said ? this.correction.said.correction : null);
  offersChips = $derived.by(() => this.taught === null && (this.reply === null || this.reward === 0));
  /** Words once typed keep their box, also when sending them failed. */
  offersTeaching = $derived(
    this.offersChips || this.teachAsked > 0 || (this.taught === null && this.teachDraft !== ''),
  );

  constructor(
    private around: Around,
    private journal: Feedback[],
    readonly question: string,
    answer: PredictResponse,
  ) {
    const [prediction] = answer.predictions;
    this.id = answer.prediction_ids[0] ?? '';
    this.version = answer.model_version;
    this.reply = prediction?.reply ?? null;
    this.chips = (prediction?.candidates ?? []).filter(({ id }) => id !== this.reply?.id).slice(0, CHIPS);
  }

  /** A pressed thumb is let go again. Praise also takes back what contradicts it: a correction. */
  async rate(reward: 0 | 1): Promise<void> {
    if (this.reply === null) return; // there is nothing to rate
    if (this.thumb && this.reward === reward) return this.undo(this.thumb);
    this.teachAsked = 0;
    return this.say({ reward }, [this.thumb, reward === 1 ? this.correction : null]);
  }

  /** Teaching takes the place of an earlier correction, and of praise: the reply cannot be right as well. */
  async teach(text = this.teachDraft): Promise<void> {
    const correction = text.trim();
    if (correction === '') return;
    this.teachAsked = 0;
    await this.say({ correction }, [this.correction, this.reward === 1 ? this.thumb : null]);
    if (this.taught === correction) this.teachDraft = '';
  }

  async choose(index: number): Promise<void> {
    const chip = this.offersChips ? this.chips[index] : undefined;
    if (chip) await this.teach(chip.text);
  }

  askToTeach() {
    this.teachAsked += 1;
  }

  stopTeaching() {
    this.teachAsked = 0;
  }

  async undo(feedback: Feedback): Promise<void> {
    this.latest = feedback;
    await feedback.retract().catch(this.around.complain);
  }

  private say(said: Said, instead: (Feedback | null)[]): Promise<void> {
    const feedback = new Feedback(this.around, this.question, this.id, said);
    const replaced = Promise.all(instead.map((one) => one?.retract()));
    this.given.push(feedback);
    this.journal.push(feedback);
    this.latest = feedback;
    return feedback.send(replaced);
  }
}
