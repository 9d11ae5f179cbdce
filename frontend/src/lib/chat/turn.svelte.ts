/* One question, one reply to it, and the feedback about that reply. */

import type { Offlineable } from '../api/model';
import type { Api, ChatInstance } from '../api/chat';
import { Feedback, type FeedbackContext } from '../ui/feedback.svelte';
import { Retirement } from './retirement.svelte';
import type {
  Candidate,
  CorrectionScope,
  PredictResponse,
  Reply,
  FeedbackContent,
  StoredFeedback,
  StoredTurn,
} from '../schema';
import type { Rights } from '../ui/session.svelte';
import { Explanation } from './explanation.svelte';
import { GeneratedAnswers, type Fallback } from './generated_answers.svelte';

const CHIPS = 3;
/* The chance from which a reply is offered, measured by `python -m benchmarks.typed_questions --only offers`. */
/** Where no reply is given: people who do not know the answer are to be helped. */
const LIKELY = 0.2;
/** Below a reply that was wrong: they know that there is a better one. */
const PROPOSED = 0.05;
export const RECHECK_TIMEOUT_MS = 2000;
export const REASONS = ['wrong', 'not what I asked', 'not helpful', 'out of date', 'rude'] as const;
export type Reason = (typeof REASONS)[number];

const isThumb = ({ content }: Feedback) => 'reward' in content;
const isCorrection = ({ content }: Feedback) => 'correction' in content;

/** What the chat depends on. */
export interface ChatContext extends FeedbackContext<Offlineable<Api>> {
  rights: Rights;
  /** Without it, nothing answers where the model knows no reply. */
  fallback?: Fallback;
}

/** An action that can be undone. */
export type UndoableAction = Feedback | Retirement;

/** An answer, new or from a stored conversation. */
export interface Answer {
  id: string;
  version: string;
  reply: Reply | null;
  candidates: Candidate[];
  /** Whether this device has given it, without the service. */
  isLocal: boolean;
}

export function toAnswer({ predictions, prediction_ids, model_version, isLocal = false }: PredictResponse): Answer {
  const [prediction] = predictions;
  return {
    id: prediction_ids[0] ?? '',
    version: model_version,
    reply: prediction?.reply ?? null,
    candidates: prediction?.candidates ?? [],
    isLocal,
  };
}

export const toStoredAnswer = (stored: StoredTurn): Answer => ({
  id: stored.prediction_id,
  version: stored.model_version,
  reply: stored.reply,
  candidates: stored.candidates.filter(({ id }) => !stored.besides.includes(id)),
  isLocal: stored.isLocal ?? false,
});

export class Turn {
  readonly id: string;
  readonly version: string;
  readonly reply: Reply | null;
  readonly isLocal: boolean;
  readonly chips: Candidate[];
  readonly explanation: Explanation;
  /** null without a reply to retire. */
  readonly retirement: Retirement | null;
  /** What language models answer; null with a reply, or without language models. */
  readonly generated: GeneratedAnswers | null;

  feedbacks = $state<Feedback[]>([]);
  /** The feedback shown under the reply: the last one given or taken back. */
  latest = $state.raw<Feedback | null>(null);
  /** How often teaching was opened: each time moves the focus to its box; 0 means closed. */
  teachRequests = $state(0);
  /** Whether the person has just opened something below the reply, which the page then brings into view. */
  wantsReveal = $state(false);
  teachDraft = $state('');
  /** How far the next correction reaches. */
  scope = $state<CorrectionScope>('reply');
  commentDraft = $state('');
  /** Whether the box for a comment was opened: it takes the focus. */
  wantsToComment = $state(false);
  /** Whether the replies offered in place of one that is unknown were dismissed. */
  private dismissedChips = $state(false);
  /** Whether the person wants to see the answer that a thumb down has led to. */
  showsChange = $state(false);

  /** Whether the reply can be rated. The service takes an opinion about an answer that it did not give as teaching. */
  mayRate = $derived.by(() => {
    const { mayRate, teaching } = this.context.rights;
    return mayRate && (!this.isLocal || teaching !== 'off');
  });
  /** What is held counts beside the last opinion, until a curator accepts it. */
  proposal = $derived(this.feedbacks.findLast((one) => one.isActive && one.held) ?? null);
  private opinion = $derived(this.feedbacks.findLast((one) => one.isActive && !one.held) ?? null);
  thumb = $derived([this.proposal, this.opinion].find((one) => one !== null && isThumb(one)) ?? null);
  correction = $derived([this.proposal, this.opinion].find((one) => one !== null && isCorrection(one)) ?? null);
  rating = $derived(this.thumb && 'reward' in this.thumb.content ? this.thumb.content : null);
  reward = $derived(this.rating?.reward ?? null);
  reason = $derived(this.rating?.reason ?? null);
  comment = $derived(this.rating?.comment ?? null);
  correctionText = $derived(
    this.correction && 'correction' in this.correction.content ? this.correction.content.correction : null,
  );
  /** A suggestion that a curator has rejected, until there is another. */
  rejection = $derived(
    this.correctionText === null ? (this.feedbacks.findLast((one) => one.rejected && isCorrection(one)) ?? null) : null,
  );
  offersChips = $derived.by(
    () => this.correctionText === null && (this.reply === null || this.reward === 0) && this.mayRate,
  );
  /** Whether it has no reply, but some that may help. */
  isGuess = $derived.by(() => this.reply === null && this.chips.length > 0 && !this.dismissedChips && this.mayRate);
  showsChips = $derived.by(() => this.offersChips && this.chips.length > 0 && (this.reply !== null || this.isGuess));
  offersTeaching = $derived.by(() => this.context.rights.teaching !== 'off');
  /** Whether the person is asked for the reply that is unknown: not visitors, who want to know it themselves. */
  asksToTeach = $derived.by(() => this.reply === null && this.context.rights.teaching === 'on');
  /** Whether the box for a correction is shown. One with text stays open, also after an error. */
  showsForm = $derived.by(
    () =>
      this.offersTeaching &&
      (this.teachRequests > 0 ||
        (this.correctionText === null && (this.teachDraft !== '' || this.reward === 0 || this.asksToTeach))),
  );
  /** Whether a person who knows the unknown reply can open that box. */
  offersForm = $derived.by(
    () =>
      this.reply === null && this.offersTeaching && this.correctionText === null && !this.isGuess && !this.showsForm,
  );
  /** Whether to say that nothing else can be done about a wrong reply. */
  lacksForm = $derived.by(() => this.reply !== null && this.offersChips && !this.offersTeaching);
  showsCorrection = $derived(this.showsChips || this.showsForm || this.lacksForm);
  commenting = $derived(this.wantsToComment || this.commentDraft !== '');
  /** Whether the right reply was one of those offered. */
  choseChip = $derived.by(() => this.chips.some(({ text }) => text === this.correctionText));

  private recheckResult = $derived.by(
    () => this.retirement?.recheckResult ?? (this.latest?.isActive ? this.latest.recheckResult : null) ?? null,
  );
  /** The answer to the question before and after the last feedback; null until it is known. */
  change = $derived(
    this.recheckResult && {
      ...this.recheckResult,
      isSame: this.recheckResult.before === this.recheckResult.after,
    },
  );
  /** Whether the answer after the change, which is shown, is what was taught. */
  showsLesson = $derived.by(
    () => this.change !== null && !this.change.isSame && !this.foldsChange && this.change.after === this.correctionText,
  );
  /** Whether nothing takes the place of a wrong reply. */
  knowsNoOther = $derived.by(() => this.foldsChange && this.change?.after === null);
  /** Whether the change is shown only on request: what follows a wrong reply may be wrong as well. */
  foldsChange = $derived.by(() => this.reward === 0 && this.change !== null && !this.retirement?.recheckResult);

  constructor(
    readonly context: ChatContext,
    private actions: UndoableAction[],
    readonly question: string,
    { id, version, reply, candidates, isLocal }: Answer,
    /** The first reply to the question. */
    private first: Reply | null = reply,
    /** The questions before it. */
    private previous: string[] = [],
    /** Loads the feedback about this answer that is in force or held. */
    private loadFeedback?: () => Promise<StoredFeedback[]>,
  ) {
    [this.id, this.version, this.reply, this.isLocal] = [id, version, reply, isLocal];
    const least = reply === null ? LIKELY : context.rights.teaching === 'off' ? 0 : PROPOSED; // without teaching, a chip is the only correction
    this.chips = candidates.filter(({ id, score }) => id !== reply?.id && score >= least).slice(0, CHIPS);
    this.explanation = new Explanation(context, id);
    this.retirement =
      reply && reply.text !== '' && context.rights.mayCurate && !isLocal
        ? new Retirement(context, reply, (offset) => this.runRecheck(offset), this.before())
        : null;
    const { complain, fallback, newId } = context;
    this.generated =
      reply === null && !isLocal && fallback?.isServed()
        ? new GeneratedAnswers({ api: fallback.api, live: fallback.live, newId, complain }, actions, id)
        : null;
  }

  /** Restore the feedback given before the page was opened. */
  resume(stored: StoredFeedback[]) {
    for (const one of stored) {
      const content = this.contentOf(one);
      if (content) this.add(this.feedback(content, one.id).resume(one));
    }
  }

  /** Show what became of the feedback after somebody else has taken a decision about it back. */
  private async reload() {
    const stored = await this.loadFeedback?.().catch(() => null); // shown after a reload of the page
    if (!stored) return;
    for (const one of this.feedbacks) if (one.isActive && !stored.some(({ id }) => id === one.id)) one.replaced = true;
    this.latest = this.feedbacks.findLast(({ isActive }) => isActive) ?? null;
    this.resume(stored.filter(({ id }) => !this.feedbacks.some((one) => one.id === id)));
  }

  /** Rate the reply. The same rating again takes it back. */
  async rate(reward: 0 | 1): Promise<void> {
    if (!this.mayRate) return;
    if (this.reply === null) return this.generated?.rate(reward);
    if (this.thumb && this.reward === reward) return this.undo(this.thumb);
    this.teachRequests = 0;
    this.wantsReveal = reward === 0;
    return this.give({ reward });
  }

  /** Set the reason of a bad rating; the same reason again removes it. */
  async giveReason(reason: Reason): Promise<void> {
    if (this.rating?.reward !== 0) return;
    const { reason: current, ...rest } = this.rating;
    await this.give(current === reason ? rest : { ...rest, reason });
  }

  /** Set the comment; an empty one removes it. Text that could not be sent stays in the box. */
  async giveComment(text = this.commentDraft): Promise<void> {
    if (!this.rating) return;
    const { comment: current, ...rest } = this.rating;
    const comment = text.trim();
    if (comment !== (current ?? '')) await this.give(comment === '' ? rest : { ...rest, comment });
    if ((this.comment ?? '') === comment) this.commentDraft = '';
  }

  openComment() {
    this.commentDraft = this.comment ?? '';
    this.wantsToComment = true;
    this.wantsReveal = true;
  }

  /** A comment that could not be sent stays in the box. */
  closeComment() {
    this.wantsToComment = false;
  }

  /** Teach the right reply. */
  async teach(text = this.teachDraft): Promise<void> {
    const correction = text.trim();
    if (correction === '') return;
    this.teachRequests = 0;
    const { scope } = this;
    await this.give({ correction, ...(this.sendsScope ? { scope } : {}) });
    if (this.correctionText === correction) this.teachDraft = '';
  }

  /** To supersede a reply for other questions is teaching, which not everybody may do at once. */
  private get sendsScope(): boolean {
    const { teaching } = this.context.rights;
    return teaching === 'on' || (teaching === 'review' && this.scope === 'question');
  }

  async choose(index: number): Promise<void> {
    const chip = this.showsChips ? this.chips[index] : undefined;
    if (chip) await this.teach(chip.text);
  }

  dismissChips() {
    this.dismissedChips = true;
  }

  async retire(): Promise<void> {
    if (this.retirement === null || this.retirement.isRetired) return;
    this.actions.push(this.retirement);
    await this.retirement.retire();
  }

  openTeaching() {
    if (!this.offersTeaching) return;
    this.teachRequests += 1;
    this.wantsReveal = true;
  }

  closeTeaching() {
    this.teachRequests = 0;
  }

  async undo(feedback: Feedback): Promise<void> {
    this.latest = feedback;
    await feedback.retract().catch(this.context.complain);
  }

  /** Give feedback, which is immutable: it replaces what was said about this reply before. */
  private give(content: FeedbackContent): Promise<void> {
    const feedback = this.feedback(content);
    const earlier = this.feedbacks.filter(({ isActive }) => isActive);
    this.add(feedback);
    return feedback.sendInsteadOf(earlier);
  }

  private feedback(content: FeedbackContent, id?: string): Feedback {
    return new Feedback(
      this.context,
      this.id,
      content,
      (offset) => this.runRecheck(offset),
      this.before(),
      id,
      () => void this.reload(),
    );
  }

  /** The question as it was asked: after those before it. */
  get instance(): ChatInstance {
    return this.previous.length > 0 ? { text: this.question, previous: this.previous } : this.question;
  }

  private before(): string | null {
    return this.first?.text ?? null;
  }

  private add(feedback: Feedback) {
    this.feedbacks.push(feedback);
    this.actions.push(feedback);
    this.latest = feedback;
  }

  private contentOf({ reward, reason, comment, correction, scope, label }: StoredFeedback): FeedbackContent | null {
    if (correction != null) return { correction, ...(scope ? { scope } : {}) };
    if (label != null) return { correction: this.chips.find(({ id }) => id === label)?.text ?? label };
    if (reward == null) return null; // its text was erased
    return {
      reward: reward < 0.5 ? 0 : 1,
      ...(reason ? { reason } : {}),
      ...(comment ? { comment } : {}),
    };
  }

  /** Predict without a record, to show what changed. */
  private async runRecheck(min_offset: number): Promise<string | null> {
    const { api } = this.context;
    const options = { record: false, min_offset, timeout_ms: RECHECK_TIMEOUT_MS };
    const { predictions } = await api.predict({ instances: [this.instance], ...options });
    return predictions[0]?.reply?.text ?? null;
  }
}
