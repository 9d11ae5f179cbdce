/* The talk: what was asked, what is being asked, what went wrong, and the keys that act on the last reply.

   show(id) -> the service's memory -\
   ask -> predict ---------------------> exchanges: a question, its replies, what was said about them
   another -> predict besides those --/
*/

import { ApiError, type Api } from './api';
import { Exchange } from './exchange.svelte';
import { Feedback, type Around } from './feedback.svelte';
import type { Action } from './keys';
import { Retirement } from './retirement.svelte';
import type { PredictRequest, PredictResponse, TurnKept } from './schema';
import { answeredNow, answeredThen, Turn, type Answered, type Done } from './turn.svelte';
import { messageOf } from './words';

/** The longest that the first answer waits for what a service that was just started is yet to learn. */
export const FIRST_MS = 5000;
const NOT_LEARNED_YET = 504;
const ERASED = '(these words were erased)';

/** A request on its way. exchange: whose other reply is waited for; null: it is a new question. */
interface Waiting {
  question: string;
  exchange: Exchange | null;
  given: AbortController;
}

export class Conversation {
  id = $state('');
  exchanges = $state<Exchange[]>([]);
  draft = $state('');
  waiting = $state.raw<Waiting | null>(null);
  /** What was kept of it is on its way. */
  loading = $state(false);
  /** The first answer waits for the service to learn what was there before: of one that was just started, its replies. */
  catchingUp = $state(false);
  problem = $state<string | null>(null);

  private journal = $state<Done[]>([]);
  private shows = 0;
  private answered = false;

  /** The question on its way; null while none is. */
  pending = $derived(this.waiting?.exchange === null ? this.waiting.question : null);
  busy = $derived(this.waiting !== null || this.loading);
  begun = $derived(this.exchanges.length > 0);
  replyCount = $derived(this.exchanges.reduce((sum, { turns }) => sum + turns.length, 0));
  lastExchange = $derived(this.exchanges.at(-1) ?? null);
  last = $derived(this.lastExchange?.current ?? null);
  learnedCount = $derived(this.journal.filter((done) => done instanceof Feedback && done.learned && done.stands).length);

  private around: Around<Api>;

  constructor(around: Omit<Around<Api>, 'complain'>) {
    this.around = { ...around, complain: (error) => this.complain(error) };
    this.id = around.newId();
  }

  /** The one with that id, as it was kept; null: a new one. What is shown already stays as it is. */
  async show(id: string | null): Promise<void> {
    if (id === null ? !this.begun && !this.busy : id === this.id) return;
    this.clear(id ?? this.around.newId());
    if (id !== null) await this.load(id);
  }

  async ask(text = this.draft): Promise<void> {
    const question = text.trim();
    if (question === '' || this.busy) return;
    this.draft = '';
    const answer = await this.request({ question, exchange: null, given: new AbortController() });
    if (answer) this.exchanges.push(new Exchange(question, this.turn(question, answer)));
  }

  /** Another reply to a question, besides all that it got. */
  async another(exchange = this.lastExchange): Promise<void> {
    if (!exchange?.hasMore || this.busy) return;
    const { question } = exchange;
    const answer = await this.request({ question, exchange, given: new AbortController() });
    if (answer) exchange.add(this.turn(question, answer, exchange));
  }

  /** Waits no longer; a new question returns into the composer. */
  stop() {
    const { waiting } = this;
    if (!waiting) return;
    this.waiting = null;
    if (waiting.exchange === null) this.draft ||= waiting.question;
    waiting.given.abort();
  }

  /** The question goes back into the composer; asked again, it is a new one. */
  edit({ question }: Exchange) {
    this.draft = question;
  }

  async rollBack(version: string): Promise<void> {
    this.problem = null;
    await this.around.live.rollBack(version).catch((error: unknown) => this.complain(error));
  }

  /** Takes back what was done last and still stands, whichever reply it was about: a feedback, or that it was forgotten. */
  async undo(): Promise<void> {
    const done = this.journal.findLast((one) => (one instanceof Retirement ? one.forgotten : one.stands));
    if (done instanceof Retirement) await done.restore();
    else if (done) await this.turns().find(({ given }) => given.includes(done))?.undo(done);
  }

  act(action: Action): Promise<void> | void {
    switch (action.do) {
      case 'rate':
        return this.last?.rate(action.reward);
      case 'choose':
        return this.last?.choose(action.index);
      case 'teach':
        return this.last?.askToTeach();
      case 'undo':
        return this.undo();
      case 'another':
        return this.another();
    }
  }

  /** The answer; null if there is none, or nobody waits for it any more. */
  private async request(waiting: Waiting): Promise<Answered | null> {
    const { api, user } = this.around;
    const { question, exchange, given } = waiting;
    const besides = exchange ? { besides: exchange.shownReplies } : {};
    this.problem = null;
    this.waiting = waiting;
    try {
      const request = { instances: [question], user, record: true, conversation: this.id, ...besides };
      const { signal } = given;
      const answer = await (this.answered ? api.predict(request, signal) : this.predictFirst(request, signal));
      this.answered = true;
      return this.waiting === waiting ? answeredNow(answer) : null;
    } catch (error) {
      if (this.waiting !== waiting) return null;
      if (exchange === null) this.draft ||= question; // never lost; but what was typed meanwhile is not overwritten
      this.complain(error);
      return null;
    } finally {
      if (this.waiting === waiting) this.waiting = null;
    }
  }

  private async predictFirst(request: PredictRequest, signal: AbortSignal): Promise<PredictResponse> {
    const { api } = this.around;
    const min_offset = await this.toBeLearned();
    signal.throwIfAborted();
    if (min_offset === null) return api.predict(request, signal);
    this.catchingUp = true;
    try {
      return await api.predict({ ...request, min_offset, timeout_ms: FIRST_MS }, signal);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === NOT_LEARNED_YET)) throw error;
      return await api.predict(request, signal); // what there is already is better than waiting on
    } finally {
      this.catchingUp = false;
    }
  }

  /** The offset that the first answer should know; null: nothing is to be waited for. */
  private async toBeLearned(): Promise<number | null> {
    const { api, live } = this.around;
    if (live.learnerPaused) return null;
    const status = await api.status().catch(() => null); // whatever is wrong, the question itself will tell
    if (!status || status.learned_until >= status.head) return null;
    const rolledBack = live.versions.some(({ learned_until }) => learned_until > status.learned_until);
    if (rolledBack || (await api.frozen().catch(() => false))) return null; // then nothing is on its way
    return status.head;
  }

  private clear(id: string) {
    this.stop();
    this.shows += 1;
    this.id = id;
    this.exchanges = [];
    this.journal = [];
    this.problem = null;
    this.loading = false;
  }

  private async load(id: string) {
    const { api, user } = this.around;
    const showing = this.shows;
    this.loading = true;
    try {
      const { said } = await api.conversation(user, id);
      if (showing === this.shows) for (const kept of said) this.recall(kept);
    } catch (error) {
      if (showing !== this.shows) return;
      const gone = error instanceof ApiError && error.status === 404;
      if (gone) this.id = this.around.newId(); // what is said now is a new one
      this.complain(gone ? 'That conversation is not here: it was deleted, or belongs to another browser.' : error);
    }
    if (showing === this.shows) this.loading = false;
  }

  private recall(kept: TurnKept) {
    const question = kept.question ?? ERASED;
    const again = kept.besides.length > 0 && this.lastExchange?.question === question ? this.lastExchange : undefined;
    const turn = this.turn(question, answeredThen(kept), again);
    turn.recall(kept.feedback);
    if (again) again.add(turn);
    else this.exchanges.push(new Exchange(question, turn));
  }

  private turn(question: string, answer: Answered, exchange?: Exchange): Turn {
    return new Turn(this.around, this.journal, question, answer, exchange?.turns[0]?.reply);
  }

  private turns(): Turn[] {
    return this.exchanges.flatMap(({ turns }) => turns);
  }

  private complain(error: unknown) {
    this.problem = messageOf(error);
  }
}
