/* The answers of language models to one question that the chat model has no reply to.

   ask -> current        thumb down, another -> current | rival        prefer -> current
*/

import type { FallbackApi } from '../api/fallback';
import { ApiError } from '../http';
import { t } from '../messages';
import type { StoredGenerated } from '../schema';
import type { Feedback, FeedbackContext } from '../ui/feedback.svelte';
import type { LiveStatus } from '../ui/live_status.svelte';
import { GeneratedAnswer } from './generated_answer.svelte';

const MAX_EXCLUDED = 100; // limit of the service

/** The language models behind the chat model. */
export interface Fallback {
  api: FallbackApi;
  /** The state of the router, which learns from the feedback. */
  live: LiveStatus;
  /** Whether the chat model has a fallback. */
  isServed: () => boolean;
}

export class GeneratedAnswers {
  /** Those that were given, oldest first. */
  answers = $state<GeneratedAnswer[]>([]);
  /** The answer shown; null for none. */
  current = $state.raw<GeneratedAnswer | null>(null);
  /** Another answer, beside the one shown; null for none. */
  rival = $state.raw<GeneratedAnswer | null>(null);
  /** What could not be done; null for nothing. */
  notice = $state<string | null>(null);
  private abort = $state.raw<AbortController | null>(null);
  /** The last choice between two answers; null for none. */
  private choice: { pair: [GeneratedAnswer, GeneratedAnswer]; given: Feedback[] } | null = null;

  isAsking = $derived(this.abort !== null);
  shown = $derived([this.current, this.rival].filter((one) => one !== null));
  offersAnother = $derived(
    this.rival === null &&
      this.current !== null &&
      !this.current.isStreaming &&
      (this.current.reward === 0 || this.current.isCut) &&
      this.notice === null &&
      this.answers.length <= MAX_EXCLUDED,
  );

  constructor(
    readonly context: FeedbackContext<FallbackApi>,
    private actions: { push(...done: Feedback[]): unknown },
    /** The chat model's prediction. */
    private question: string,
  ) {}

  get feedbacks(): Feedback[] {
    return this.answers.flatMap(({ feedbacks }) => feedbacks);
  }

  /** Show what was answered before the page was opened: the answer that was liked, or else the newest. */
  restore(stored: StoredGenerated[]) {
    this.answers = stored.map((one) => GeneratedAnswer.restore(this.context, one));
    this.current = this.answers.findLast(({ reward }) => reward === 1) ?? this.answers.at(-1) ?? null;
    this.actions.push(...this.feedbacks);
  }

  async ask(): Promise<void> {
    const answer = new GeneratedAnswer(this.context);
    this.current = answer;
    await this.read(answer);
    if (answer.text === '') this.current = null;
  }

  /** Ask another route, whose answer is shown beside the present one. */
  async another(): Promise<void> {
    if (!this.offersAnother || this.isAsking) return;
    const rival = new GeneratedAnswer(this.context);
    this.rival = rival;
    await this.read(rival);
    if (rival.text === '') this.rival = null;
  }

  /** Stop the answer that is coming; what has come stays. Returns whether there was one. */
  stop(): boolean {
    this.abort?.abort();
    return this.abort !== null;
  }

  /** Rate the answer shown. The same rating again takes it back. */
  async rate(reward: 0 | 1, answer = this.current): Promise<void> {
    if (answer === null || answer.isStreaming) return;
    if (answer.opinion && answer.reward === reward) return this.undo(answer.opinion);
    this.notice = null;
    await this.give(answer, { reward });
  }

  /** Keep the better one of two answers. */
  async prefer(chosen: GeneratedAnswer): Promise<void> {
    const [current, rival] = [this.current, this.rival];
    if (current === null || rival === null || this.isAsking) return;
    [this.current, this.rival] = [chosen, null];
    const other = chosen === current ? rival : current;
    const sent = [
      this.give(other, { reward: 0, signal: 'preference' }),
      this.give(chosen, { reward: 1, signal: 'preference' }),
    ];
    this.choice = { pair: [current, rival], given: [other.latest!, chosen.latest!] };
    await Promise.all(sent);
  }

  /** Take feedback back; of a choice between two answers both parts, and they are beside each other again. */
  async undo(feedback: Feedback): Promise<void> {
    const choice = this.choice?.given.includes(feedback) ? this.choice : null;
    const taken = choice?.given ?? [feedback];
    if (choice) [[this.current, this.rival], this.choice] = [choice.pair, null];
    await Promise.all(
      this.answers.flatMap((answer) =>
        answer.feedbacks.filter((one) => taken.includes(one)).map((one) => answer.retract(one)),
      ),
    );
  }

  private async give(answer: GeneratedAnswer, content: Parameters<GeneratedAnswer['give']>[0]) {
    const given = answer.give(content);
    this.actions.push(answer.latest!);
    await given;
  }

  private async read(answer: GeneratedAnswer): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    this.notice = null;
    const exclude = this.answers.map(({ route }) => route);
    try {
      await answer.read(await this.context.api.ask(this.question, exclude, abort.signal));
      if (answer.text === '') this.notice = t.chat.generated.unavailable;
    } catch (error) {
      answer.isCut = !abort.signal.aborted;
      if (answer.isCut && answer.text === '') this.notice = noticeOf(error, exclude.length > 0);
    }
    answer.isStreaming = false;
    if (answer.text !== '') this.answers.push(answer);
    this.abort = null;
  }
}

const BAD_GATEWAY = 502;

/** Whether all routes have answered is in the sentence of the service alone. */
function noticeOf(error: unknown, isAnother: boolean): string {
  const isLast = isAnother && error instanceof ApiError && error.status === BAD_GATEWAY;
  return isLast && error.message.includes('no other route') ? t.chat.generated.noOther : t.chat.generated.unavailable;
}
