/* One question, a reply it got, and all that was said about that reply. */

import type { Api } from './api';
import { Feedback, type Around } from './feedback.svelte';
import { Retirement } from './retirement.svelte';
import type { Candidate, PredictResponse, Reply, Said, SaidKept, Thumb, TurnKept } from './schema';
import { Why } from './why.svelte';

const CHIPS = 3;
export const ASK_AGAIN_MS = 2000;
export const REASONS = ['wrong', 'not helpful', 'rude', 'out of date'] as const;
export type Reason = (typeof REASONS)[number];

const isThumb = ({ said }: Feedback) => 'reward' in said;
const isCorrection = ({ said }: Feedback) => 'correction' in said;

/** What somebody did that can be undone. */
export type Done = Feedback | Retirement;

/** What was answered, be it just now or when the conversation was kept. */
export interface Answered {
  id: string;
  version: string;
  reply: Reply | null;
  candidates: Candidate[];
}

export function answeredNow({ predictions, prediction_ids, model_version }: PredictResponse): Answered {
  const [prediction] = predictions;
  return {
    id: prediction_ids[0] ?? '',
    version: model_version,
    reply: prediction?.reply ?? null,
    candidates: prediction?.candidates ?? [],
  };
}

export const answeredThen = (kept: TurnKept): Answered => ({
  id: kept.prediction_id,
  version: kept.model_version,
  reply: kept.reply,
  candidates: kept.candidates.filter(({ id }) => !kept.besides.includes(id)),
});

export class Turn {
  readonly id: string;
  readonly version: string;
  readonly reply: Reply | null;
  readonly chips: Candidate[];
  readonly why: Why;
  /** null where there is no reply that could be forgotten. */
  readonly retirement: Retirement | null;

  given = $state<Feedback[]>([]);
  /** The one whose life the line under the reply tells: the last that was given or taken back. */
  latest = $state.raw<Feedback | null>(null);
  /** How often the teach box was asked for: each time moves the focus there; 0 leaves it closed. */
  teachAsked = $state(0);
  teachDraft = $state('');
  commentDraft = $state('');

  thumb = $derived(this.given.findLast((one) => one.stands && isThumb(one)) ?? null);
  correction = $derived(this.given.findLast((one) => one.stands && isCorrection(one)) ?? null);
  rated = $derived(this.thumb && 'reward' in this.thumb.said ? this.thumb.said : null);
  reward = $derived(this.rated?.reward ?? null);
  reason = $derived(this.rated?.reason ?? null);
  comment = $derived(this.rated?.comment ?? null);
  taught = $derived(this.correction && 'correction' in this.correction.said ? this.correction.said.correction : null);
  offersChips = $derived.by(() => this.taught === null && (this.reply === null || this.reward === 0));
  /** Words once typed keep their box, also when sending them failed. */
  offersTeaching = $derived(
    this.offersChips || this.teachAsked > 0 || (this.taught === null && this.teachDraft !== ''),
  );

  constructor(
    private around: Around<Api>,
    private journal: Done[],
    readonly question: string,
    { id, version, reply, candidates }: Answered,
    /** What the question got when it was first asked. */
    private first: Reply | null = reply,
  ) {
    [this.id, this.version, this.reply] = [id, version, reply];
    this.chips = candidates.filter((one) => one.id !== reply?.id).slice(0, CHIPS);
    this.why = new Why(around, id);
    this.retirement = reply && reply.text !== '' ? new Retirement(around, reply, (offset) => this.askAgain(offset), this.before()) : null;
  }

  /** What was said about it before the page was opened. */
  recall(kept: SaidKept[]) {
    for (const one of kept) {
      const said = this.saidThen(one);
      if (said) this.note(this.feedback(said, one.id).recall(one));
    }
  }

  /** A pressed thumb is let go again. Praise also takes back what contradicts it: a correction. */
  async rate(reward: 0 | 1): Promise<void> {
    if (this.reply === null) return; // there is nothing to rate
    if (this.thumb && this.reward === reward) return this.undo(this.thumb);
    this.teachAsked = 0;
    return this.say({ reward }, [this.thumb, reward === 1 ? this.correction : null]);
  }

  /** Says why the thumb is down; the reason that was given already is let go again. */
  async giveReason(reason: Reason): Promise<void> {
    if (this.rated?.reward !== 0) return;
    const { reason: given, ...rest } = this.rated;
    await this.amend(given === reason ? rest : { ...rest, reason });
  }

  /** What else there is to say; nothing takes the comment back. Words that could not be sent stay in the box. */
  async giveComment(text = this.commentDraft): Promise<void> {
    if (!this.rated) return;
    const { comment: given, ...rest } = this.rated;
    const comment = text.trim();
    if (comment !== (given ?? '')) await this.amend(comment === '' ? rest : { ...rest, comment });
    if ((this.comment ?? '') === comment) this.commentDraft = '';
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

  async forget(): Promise<void> {
    if (this.retirement === null || this.retirement.forgotten) return;
    this.journal.push(this.retirement);
    await this.retirement.forget();
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

  /** A feedback never changes: a thumb with more to say takes the place of the one without. */
  private amend(thumb: Thumb): Promise<void> {
    return this.say(thumb, [this.thumb]);
  }

  private say(said: Said, instead: (Feedback | null)[]): Promise<void> {
    const feedback = this.feedback(said);
    const replaced = Promise.all(instead.map((one) => one?.retract()));
    this.note(feedback);
    return feedback.send(replaced);
  }

  private feedback(said: Said, id?: string): Feedback {
    return new Feedback(this.around, this.id, said, (offset) => this.askAgain(offset), this.before(), id);
  }

  private before(): string | null {
    return this.first?.text ?? null;
  }

  private note(feedback: Feedback) {
    this.given.push(feedback);
    this.journal.push(feedback);
    this.latest = feedback;
  }

  private saidThen({ reward, reason, comment, correction, label }: SaidKept): Said | null {
    if (correction != null) return { correction };
    if (label != null) return { correction: this.chips.find(({ id }) => id === label)?.text ?? label };
    if (reward == null) return null; // its words were erased
    return { reward: reward < 0.5 ? 0 : 1, ...(reason ? { reason } : {}), ...(comment ? { comment } : {}) };
  }

  /** A dry run: shows what changed, and leaves no prediction behind. */
  private async askAgain(min_offset: number): Promise<string | null> {
    const { api, user } = this.around;
    const dry = { user, record: false, min_offset, timeout_ms: ASK_AGAIN_MS };
    const { predictions } = await api.predict({ instances: [this.question], ...dry });
    return predictions[0]?.reply?.text ?? null;
  }
}
