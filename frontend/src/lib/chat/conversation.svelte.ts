/* The conversation: exchanges, the pending request, errors, and the actions on the last reply.

   show(id) -> stored conversation  -\
   ask, askEdited -> predict -----------> exchanges: a question, its replies, their feedback
   another -> predict, excluding those --/     without a reply -> the answer of a language model

   An edited question starts a branch: the exchanges are a tree, and the branch chosen is shown.
*/

import { ApiError, isUnreachable } from '../http';
import type { ChatInstance } from '../api/chat';
import { Exchange } from './exchange.svelte';
import { Feedback } from '../ui/feedback.svelte';
import type { Fallback, GeneratedAnswers } from './generated_answers.svelte';
import type { Action } from './shortcuts';
import { Retirement } from './retirement.svelte';
import type { PredictRequest, PredictResponse, StoredFeedback, StoredGenerated, StoredTurn } from '../schema';
import { toAnswer, toStoredAnswer, Turn, type Answer, type ChatContext, type UndoableAction } from './turn.svelte';
import { t } from '../messages';
import { problemOf } from '../ui/problems';

/** How long the first answer waits for a service that has just started and is still learning. */
export const FIRST_ANSWER_TIMEOUT_MS = 5000;
const NOT_LEARNED_YET = 504;
/** What `after` says of a question at the start of a conversation. */
const START = '';
/** The questions before that the service reads. */
const MAX_PREVIOUS = 5;

/** A request without an answer yet. */
interface PendingRequest {
  question: string;
  /** Gets another reply; null for a new question. */
  exchange: Exchange | null;
  /** The exchange that the question follows; null at the start. */
  parent: Exchange | null;
  /** The exchange whose question was edited; null for others. */
  edited: Exchange | null;
  abort: AbortController;
}

export class Conversation {
  id = $state('');
  draft = $state('');
  pendingRequest = $state.raw<PendingRequest | null>(null);
  /** Whether a stored conversation is being loaded. */
  loading = $state(false);
  /** Whether the first answer waits for the service to learn, such as its replies after a start. */
  waitsForLearning = $state(false);
  problem = $state<string | null>(null);

  /** All exchanges of all branches, in order. */
  private all = $state.raw<Exchange[]>([]);
  private chosenFirst = $state.raw<Exchange | null>(null);
  private actions = $state<UndoableAction[]>([]);
  private generation = 0;
  private hasAnswered = false;
  /** A stored conversation that could not be loaded without the service; null for none. */
  private missing: string | null = null;

  /** The question without an answer yet; null for none. */
  pending = $derived(this.pendingRequest?.exchange === null ? this.pendingRequest.question : null);
  private generating = $derived.by(() => this.turns().find(({ generated }) => generated?.isAsking)?.generated ?? null);
  /** Whether the answer of a language model is coming. */
  isGenerating = $derived(this.generating !== null);
  busy = $derived(this.pendingRequest !== null || this.loading || this.isGenerating);
  /** The exchanges of the branch shown. */
  exchanges = $derived(this.findBranch());
  /** The exchanges to show: while an edited question waits, those before it. */
  shown = $derived.by(() => {
    const edited = this.pendingRequest?.edited ?? null;
    return edited === null ? this.exchanges : this.exchanges.slice(0, this.exchanges.indexOf(edited));
  });
  hasStarted = $derived(this.exchanges.length > 0);
  replyCount = $derived(this.all.reduce((sum, { turns }) => sum + turns.length, 0));
  lastExchange = $derived(this.exchanges.at(-1) ?? null);
  last = $derived(this.lastExchange?.current ?? null);
  /** The language models behind the model, once there is feedback about them to follow; null before. */
  followed: Fallback | null = $derived.by(() =>
    this.turns().some(({ generated }) => generated && generated.feedbacks.length > 0)
      ? (this.context.fallback ?? null)
      : null,
  );
  learnedCount = $derived(
    this.actions.filter((done) => done instanceof Feedback && done.learned && done.isActive).length,
  );

  private context: ChatContext;

  constructor(context: Omit<ChatContext, 'complain'>) {
    this.context = { ...context, complain: (error) => this.complain(error) };
    this.id = context.newId();
  }

  /** Show the stored conversation with that id; null for a new one. */
  async show(id: string | null): Promise<void> {
    if (id === null ? !this.hasStarted && !this.busy : id === this.id) return;
    this.clear(id ?? this.context.newId());
    if (id !== null) await this.load(id);
  }

  /** Load what could not be loaded without the service, unless something was asked meanwhile. */
  async loadMissing(): Promise<void> {
    if (this.missing === this.id && !this.hasStarted && !this.busy) await this.load(this.missing);
  }

  async ask(text = this.draft): Promise<void> {
    const question = text.trim();
    if (question === '' || this.busy) return;
    this.draft = '';
    await this.askAfter(question, this.lastExchange);
  }

  /** Ask an edited question. It stands beside the one before, and the conversation continues from there. */
  async askEdited(exchange: Exchange): Promise<void> {
    const question = exchange.edited?.trim() ?? '';
    if (question === '' || this.busy) return;
    if (question !== exchange.question) await this.askAfter(question, exchange.parent, exchange);
    else exchange.cancelEditing();
  }

  private async askAfter(question: string, parent: Exchange | null, edited: Exchange | null = null): Promise<void> {
    const abort = new AbortController();
    const answer = await this.request({ question, exchange: null, parent, edited, abort });
    if (!answer) return;
    edited?.cancelEditing();
    const turn = this.turn(question, answer, null, parent);
    this.add(new Exchange(question, turn, parent));
    void turn.generated?.ask();
  }

  /** The exchanges with other versions of the same question, itself included. */
  versionsOf({ parent }: Exchange): Exchange[] {
    return this.all.filter((one) => one.parent === parent);
  }

  /** Show another version of a question, with what followed it. */
  showVersion(exchange: Exchange, by: 1 | -1) {
    const versions = this.versionsOf(exchange);
    const wanted = versions[versions.indexOf(exchange) + by];
    if (wanted) this.choose(wanted);
  }

  private add(exchange: Exchange) {
    this.all = [...this.all, exchange];
    this.choose(exchange);
  }

  private choose(exchange: Exchange) {
    if (exchange.parent === null) this.chosenFirst = exchange;
    else exchange.parent.chosenNext = exchange;
  }

  private findBranch(): Exchange[] {
    const branch: Exchange[] = [];
    for (let next = this.chosenFirst; next !== null; next = next.chosenNext) branch.push(next);
    return branch;
  }

  /** Request another reply to a question, excluding those it already got. */
  async another(exchange = this.lastExchange): Promise<void> {
    if (exchange?.current.generated) return this.anotherGenerated(exchange.current.generated);
    if (!exchange?.hasMore || this.busy) return;
    const { question, parent } = exchange;
    const abort = new AbortController();
    const answer = await this.request({ question, exchange, parent, edited: null, abort });
    if (!answer) return;
    const turn = this.turn(question, answer, exchange, parent);
    turn.wantsReveal = true;
    exchange.add(turn);
    void turn.generated?.ask();
  }

  private async anotherGenerated(generated: GeneratedAnswers): Promise<void> {
    if (!this.busy) await generated.another();
  }

  /** Stop the answer of a language model. Returns whether one was coming. */
  stopGenerating = (): boolean => this.generating?.stop() ?? false;

  /** Cancel the request. A new question returns to the composer, an edited one to its box. */
  stop() {
    const { pendingRequest: waiting } = this;
    this.stopGenerating();
    if (!waiting) return;
    this.pendingRequest = null;
    if (isNew(waiting)) this.draft ||= waiting.question;
    waiting.abort.abort();
  }

  async rollBack(version: string): Promise<void> {
    this.problem = null;
    await this.context.live.rollBack(version).catch((error: unknown) => this.complain(error));
  }

  /** Undo the last active feedback or retirement, of any reply. */
  async undo(): Promise<void> {
    const done = this.actions.findLast((one) => (one instanceof Retirement ? one.isRetired : one.isActive));
    if (done instanceof Retirement) await done.restore();
    else if (done)
      await this.turns()
        .flatMap((turn) => [turn, ...(turn.generated ? [turn.generated] : [])])
        .find(({ feedbacks }) => feedbacks.includes(done))
        ?.undo(done);
  }

  act(action: Action): Promise<void> | void {
    switch (action.do) {
      case 'rate':
        return this.last?.rate(action.reward);
      case 'choose':
        return this.last?.choose(action.index);
      case 'teach':
        return this.last?.openTeaching();
      case 'undo':
        return this.undo();
      case 'another':
        return this.another();
    }
  }

  /** The answer; null after an error or a cancellation. */
  private async request(waiting: PendingRequest): Promise<Answer | null> {
    const { api } = this.context;
    const { question, exchange, parent, abort } = waiting;
    const exclude = exchange ? { exclude: exchange.shownReplies } : {};
    this.problem = null;
    this.pendingRequest = waiting;
    try {
      const request = {
        instances: [exchange?.current.instance ?? question],
        record: true,
        conversation: this.id,
        ...(this.hasStarted ? { after: parent?.current.id ?? START } : {}),
        ...exclude,
      };
      const { signal } = abort;
      const answer = await (this.hasAnswered ? api.predict(request, signal) : this.predictFirst(request, signal));
      this.hasAnswered = true;
      return this.pendingRequest === waiting ? toAnswer(answer) : null;
    } catch (error) {
      if (this.pendingRequest !== waiting) return null;
      if (isNew(waiting)) this.draft ||= question; // keep the question, but do not overwrite text typed meanwhile
      this.complain(error);
      return null;
    } finally {
      if (this.pendingRequest === waiting) this.pendingRequest = null;
    }
  }

  private async predictFirst(request: PredictRequest<ChatInstance>, signal: AbortSignal): Promise<PredictResponse> {
    const { api } = this.context;
    const min_offset = await this.offsetToAwait();
    signal.throwIfAborted();
    if (min_offset === null) return api.predict(request, signal);
    this.waitsForLearning = true;
    try {
      return await api.predict({ ...request, min_offset, timeout_ms: FIRST_ANSWER_TIMEOUT_MS }, signal);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === NOT_LEARNED_YET)) throw error;
      return await api.predict(request, signal); // answer with what is learned so far
    } finally {
      this.waitsForLearning = false;
    }
  }

  /** The offset the first answer should have learned; null to answer at once. */
  private async offsetToAwait(): Promise<number | null> {
    const { api, live } = this.context;
    if (live.learnerPaused) return null;
    const status = await api.status().catch(() => null); // the question itself will report the error
    if (!status || status.learned_until >= status.head) return null;
    const rolledBack = live.versions.some(({ learned_until }) => learned_until > status.learned_until);
    if (rolledBack || (await api.frozen().catch(() => false))) return null; // then nothing more will be learned
    return status.head;
  }

  private clear(id: string) {
    this.stop();
    this.generation += 1;
    this.id = id;
    this.all = [];
    this.chosenFirst = null;
    this.actions = [];
    this.problem = null;
    this.loading = false;
  }

  private async load(id: string) {
    const { api } = this.context;
    const generation = this.generation;
    this.loading = true;
    this.missing = null;
    try {
      const { said } = await api.conversation(id);
      const answers = said.some(({ reply }) => reply === null) ? await this.loadGenerated(id) : {};
      if (generation === this.generation)
        for (const turn of said) this.restore(turn, answers[turn.prediction_id] ?? []);
    } catch (error) {
      if (generation !== this.generation) return;
      const gone = error instanceof ApiError && error.status === 404;
      if (gone) this.id = this.context.newId(); // later questions start a new one
      if (gone) this.problem = t.chat.conversations.gone;
      else if (isUnreachable(error)) this.missing = id;
      else this.complain(error);
    }
    if (generation === this.generation) this.loading = false;
  }

  /** The answers of language models, by the prediction of the question. */
  private async loadGenerated(id: string): Promise<Record<string, StoredGenerated[]>> {
    const { fallback } = this.context;
    if (!fallback?.isServed()) return {};
    return fallback.api.answersOf(id).then(
      ({ answers }) => answers,
      () => ({}), // the questions are shown without them
    );
  }

  private restore(stored: StoredTurn, generated: StoredGenerated[]) {
    const question = stored.question ?? t.chat.erased;
    const parent = this.all.find(({ turns }) => turns.some(({ id }) => id === stored.after)) ?? null;
    const exchange =
      stored.besides.length > 0
        ? this.all.findLast((one) => one.parent === parent && one.question === question)
        : undefined;
    const turn = this.turn(question, toStoredAnswer(stored), exchange ?? null, parent);
    turn.resume(stored.feedback);
    turn.generated?.restore(generated);
    if (exchange) exchange.add(turn);
    else this.add(new Exchange(question, turn, parent));
  }

  /** exchange: that it belongs to; null for the first reply. parent: the exchange before. */
  private turn(question: string, answer: Answer, exchange: Exchange | null, parent: Exchange | null): Turn {
    const first = exchange?.turns[0]?.reply;
    const previous = questionsUntil(parent);
    const load = () => this.loadFeedback(answer.id);
    return new Turn(this.context, this.actions, question, answer, first, previous, load);
  }

  private async loadFeedback(prediction: string): Promise<StoredFeedback[]> {
    const { said } = await this.context.api.conversation(this.id);
    return said.find(({ prediction_id }) => prediction_id === prediction)?.feedback ?? [];
  }

  private turns(): Turn[] {
    return this.all.flatMap(({ turns }) => turns);
  }

  private complain(error: unknown) {
    this.problem = problemOf(error);
  }
}

/** Whether a question was typed into the composer. */
const isNew = ({ exchange, edited }: PendingRequest) => exchange === null && edited === null;

/** The last questions of a branch, up to an exchange, that the service reads a follow-up with. */
function questionsUntil(exchange: Exchange | null): string[] {
  const questions: string[] = [];
  for (let one = exchange; one !== null; one = one.parent) questions.unshift(one.question);
  return questions.filter((question) => question !== t.chat.erased).slice(-MAX_PREVIOUS);
}
