/* What a widget and its visitor have said to each other, and what became of the visitor's feedback.

   ask -> predict -> Turn <- rate, correct, undo
                      |-> saved -> learned (a prediction waits for its offset) | held | not learned

   `changed` is called after each change; the view draws what is here.
*/

import type {
  FeedbackProgress,
  PredictResponse,
  RankerPrediction,
  Receipt,
  StoredConversation,
  StoredFeedback,
  StoredTurn,
} from '../src/lib/schema';
import type { Messages } from './messages';
import type { WidgetEvents, WidgetReply } from './public_types';
import { pathOf, ServiceError, type Service, type Teaching } from './service';

const MAX_PREVIOUS = 5; // questions before, which the service reads a follow-up with
const MAX_CHIPS = 3;
const LIKELY = 0.2; // chance from which a reply is offered where none is given, as on the chat page
const PROPOSED = 0.05; // below a reply that was wrong
const LEARNING_MS = 10_000;
const LEARNING_TRIES = 3;
const GATEWAY_TIMEOUT = 504; // not learned within LEARNING_MS
const NOT_FOUND = 404;
const IN_FORCE = ['accepted', 'learned', 'held'];

/** One thumb or correction. text: of a correction. */
export interface Given {
  id: string;
  kind: 'up' | 'down' | 'correction';
  text: string;
  isHeld: boolean;
}

export class Turn {
  /** Those in force. What is held counts beside the last one, until a curator accepts it. */
  given: Given[] = [];
  /** The one that is being sent. */
  pending: Given | null = null;
  /** What became of the last one, in words. */
  status = '';
  changes = 0;
  sent: Promise<unknown> = Promise.resolve();

  constructor(
    readonly question: string,
    /** The questions before it. */
    readonly previous: string[],
    readonly id: string,
    readonly version: string,
    readonly reply: string | null,
    /** The replies that are offered where this one is missing or wrong. */
    readonly chips: string[],
  ) {}

  get thumb(): Given | null {
    return this.find(({ kind }) => kind !== 'correction');
  }

  get correction(): Given | null {
    return this.find(({ kind }) => kind === 'correction');
  }

  private find(fits: (given: Given) => boolean): Given | null {
    const { pending } = this;
    if (pending !== null && fits(pending)) return pending;
    return this.given.findLast(fits) ?? null;
  }
}

/** What a conversation depends on. */
export interface Context {
  service: Pick<Service, 'send'>;
  model: string;
  t: Messages;
  /** Where the id of the conversation is kept, so that it goes on after a page was left. */
  store: { load(): string | null; save(id: string): void; clear(): void };
  emit: <Name extends keyof WidgetEvents>(name: Name, detail: WidgetEvents[Name]) => void;
  /** announced: what a screen reader is to say. */
  changed: (announced: string) => void;
}

export class Conversation {
  turns: Turn[] = [];
  /** The question without an answer yet. */
  pending: string | null = null;
  /** What went wrong last, in words for the visitor. */
  problem = '';
  teaching: Teaching = 'off';

  private id: string | null;
  private readonly path: string;

  constructor(private context: Context) {
    this.id = context.store.load();
    this.path = pathOf(context.model);
  }

  /** Show what was said on the page before. */
  async restore(): Promise<void> {
    const { service, store, changed } = this.context;
    if (this.id === null) return;
    try {
      const path = `${this.path}/conversations/${encodeURIComponent(this.id)}`;
      const { said } = await service.send<StoredConversation>('GET', path);
      this.turns = said.map((stored, place) => restoreTurn(stored, said.slice(0, place)));
      changed('');
    } catch (error) {
      if (!(error instanceof ServiceError) || error.status !== NOT_FOUND) throw error;
      this.id = null; // it was deleted, or belongs to a visitor who is not known any more
      store.clear();
    }
  }

  async ask(text: string): Promise<WidgetReply | null> {
    const { emit, t } = this.context;
    const question = text.trim();
    if (question === '' || this.pending !== null) return null;
    emit('question', { question });
    this.pending = question;
    this.change({ problem: '', announced: t.waiting });
    try {
      const turn = await this.predict(question);
      this.turns.push(turn);
      this.pending = null;
      this.change({ announced: turn.reply ?? t.unknown });
      const { id: predictionId, version, reply } = turn;
      const answer = { question, text: reply, predictionId, version };
      emit('reply', answer);
      return answer;
    } catch (error) {
      this.pending = null;
      this.complain(error);
      return null;
    }
  }

  /** Give a thumb; the same one again takes it back. */
  async rate(turn: Turn, kind: 'up' | 'down'): Promise<void> {
    const { thumb } = turn;
    if (thumb?.kind === kind) await this.undo(turn, thumb);
    else await this.give(turn, kind, '', { reward: kind === 'up' ? 1 : 0 });
  }

  async correct(turn: Turn, text: string): Promise<void> {
    const correction = text.trim();
    if (correction === '') return;
    const scope = this.teaching === 'on' ? { scope: 'reply' } : {}; // superseding is not for everybody
    await this.give(turn, 'correction', correction, { correction, ...scope });
  }

  async undo(turn: Turn, given: Given): Promise<void> {
    const { service, emit, t } = this.context;
    const number = ++turn.changes;
    try {
      await turn.sent;
      if (!turn.given.includes(given)) return; // it was never saved
      await service.send('DELETE', this.pathOf(given.id));
      turn.given = turn.given.filter((one) => one !== given);
      this.settle(turn, number, t.undone);
      emit('retracted', { predictionId: turn.id });
    } catch (error) {
      this.complain(error);
    }
  }

  complain(error: unknown) {
    const { t, emit } = this.context;
    const known = error instanceof ServiceError ? error : null;
    const message = known?.message ?? t.failed;
    console.error(`online: ${known?.detail ?? String(error)}`);
    this.change({ problem: message });
    emit('error', { code: known?.code ?? 'refused', message });
  }

  private async predict(question: string): Promise<Turn> {
    const { service, store } = this.context;
    const previous = this.turns.slice(-MAX_PREVIOUS).map((turn) => turn.question);
    this.id ??= newId();
    const answer = await service.send<PredictResponse>('POST', `${this.path}:predict`, {
      instances: [instanceOf(question, previous)],
      conversation: this.id,
    });
    store.save(this.id);
    const [prediction] = answer.predictions;
    return new Turn(
      question,
      previous,
      answer.prediction_ids[0] ?? '',
      answer.model_version,
      prediction?.reply?.text ?? null,
      prediction ? chipsOf(prediction) : [],
    );
  }

  private give(turn: Turn, kind: Given['kind'], text: string, content: object): Promise<void> {
    const given = { id: newId(), kind, text, isHeld: false };
    const number = ++turn.changes;
    turn.pending = given;
    turn.status = this.context.t.saving;
    this.change({ problem: '' });
    turn.sent = turn.sent.then(() => this.post(turn, given, content, number));
    return turn.sent as Promise<void>;
  }

  private async post(turn: Turn, given: Given, content: object, number: number): Promise<void> {
    const { service, emit, t } = this.context;
    const item = { id: given.id, prediction_id: turn.id, ...content };
    try {
      const path = `${this.path}:feedback`;
      const answer = await service.send<{ receipts: Receipt[] }>('POST', path, {
        feedback: [item],
      });
      const { offset, status } = answer.receipts[0]!;
      given.isHeld = status === 'held';
      const replaced = turn.given.filter(({ isHeld }) => isHeld || !given.isHeld);
      turn.given = [...turn.given.filter((one) => !replaced.includes(one)), given];
      for (const { id, isHeld } of replaced) if (isHeld) service.send('DELETE', this.pathOf(id)).catch(() => {}); // a decision came first
      this.settle(turn, number, given.isHeld ? t.held : t.saved);
      emit('feedback', { predictionId: turn.id, given: given.kind, isHeld: given.isHeld });
      if (!given.isHeld) void this.follow(turn, given, offset, number);
    } catch (error) {
      this.settle(turn, number, '');
      this.complain(error);
    }
  }

  /** Say when a feedback has been learned: when a prediction that waits for its offset is answered. */
  private async follow(turn: Turn, given: Given, offset: number, number: number): Promise<void> {
    const { service, emit, t } = this.context;
    try {
      const version = await this.awaitVersion(turn, offset);
      if (version === null) return this.settle(turn, number, t.later);
      const outcome = await service.send<FeedbackProgress>('GET', this.pathOf(given.id));
      const isLearned = ['learned', 'accepted'].includes(outcome.status);
      this.settle(turn, number, isLearned ? t.learned : t.notLearned);
      if (isLearned) emit('learned', { predictionId: turn.id, version: outcome.version ?? version });
    } catch {
      // It is saved; only the news of what became of it is missing.
    }
  }

  /** The version that has learned an offset; null where none has within half a minute. */
  private async awaitVersion(turn: Turn, min_offset: number): Promise<string | null> {
    const { service } = this.context;
    const instances = [instanceOf(turn.question, turn.previous)];
    const request = { instances, record: false, min_offset, timeout_ms: LEARNING_MS };
    for (let tries = 0; tries < LEARNING_TRIES; tries++)
      try {
        return (await service.send<PredictResponse>('POST', `${this.path}:predict`, request)).model_version;
      } catch (error) {
        if (!(error instanceof ServiceError) || error.status !== GATEWAY_TIMEOUT) throw error;
      }
    return null;
  }

  /** Note what became of a change, unless the visitor has changed their mind since. */
  private settle(turn: Turn, number: number, status: string) {
    if (number !== turn.changes) return;
    turn.pending = null;
    turn.status = status;
    this.change({ announced: status });
  }

  private change({ problem = this.problem, announced = '' }) {
    this.problem = problem;
    this.context.changed(announced);
  }

  private pathOf(feedback: string): string {
    return `${this.path}/feedback/${encodeURIComponent(feedback)}`;
  }
}

/** A question as the service takes it: a short follow-up is read with the questions before it. */
const instanceOf = (question: string, previous: string[]) =>
  previous.length > 0 ? { text: question, previous } : question;

function chipsOf({ reply, candidates }: RankerPrediction): string[] {
  const least = reply === null ? LIKELY : PROPOSED;
  return candidates
    .filter(({ id, score, text }) => id !== reply?.id && score >= least && text !== '')
    .slice(0, MAX_CHIPS)
    .map(({ text }) => text);
}

function restoreTurn(stored: StoredTurn, before: StoredTurn[]): Turn {
  const previous = before.flatMap(({ question }) => question ?? []).slice(-MAX_PREVIOUS);
  const { prediction_id, model_version, reply } = stored;
  const turn = new Turn(
    ...([stored.question ?? '', previous, prediction_id, model_version] as const),
    reply?.text ?? null,
    [],
  );
  turn.given = stored.feedback.filter(({ status }) => IN_FORCE.includes(status)).map(restoreGiven);
  return turn;
}

function restoreGiven({ id, reward, correction, label, status }: StoredFeedback): Given {
  const kind = reward == null ? 'correction' : reward < 0.5 ? 'down' : 'up';
  return { id, kind, text: correction ?? label ?? '', isHeld: status === 'held' };
}

/** A new id. `crypto.randomUUID` is missing on pages without TLS. */
const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
