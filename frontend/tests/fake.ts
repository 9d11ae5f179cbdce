/* A service in memory that does what the test says: it learns when told to, and breaks when told to. */

import { ApiError, type Api, type OperatorApi } from '../src/lib/api';
import { Conversation } from '../src/lib/conversation.svelte';
import type { ServerEvent } from '../src/lib/events';
import { Live } from '../src/lib/live.svelte';
import type {
  ConversationKept,
  Curve,
  FeedbackFate,
  FeedbackRequest,
  Frozen,
  Learner,
  ModelStatus,
  Outcome,
  PredictRequest,
  PredictResponse,
  Quarantine, RefusedCandidate,
  Version,
  VersionLabel,
  WhyAnswer,
} from '../src/lib/schema';

export const CANDIDATES = ['at nine', 'at ten', 'at eleven', 'at noon', 'never'].map((text, index) => ({
  id: `r${index}`,
  text,
  score: 1 - index / 10,
}));

export const NO_CURVE: Curve = {
  measure: 'right',
  counted_until: 0,
  head: 0,
  rated: 0,
  right: 0,
  feedback: 0,
  feedback_per_minute: 0,
  tallies: {},
  points: [],
};

export class FakeApi implements Api {
  calls: string[] = [];
  predicted: PredictRequest[] = [];
  given: FeedbackRequest[] = [];
  fates = new Map<string, FeedbackFate>();
  reply: { id: string; text: string } | null = CANDIDATES[0]!;
  version = 42;
  learned_until = 34;
  learnerNow: Learner = { state: 'running' };
  isFrozen = false;
  broken: string | null = null;
  kept = new Map<string, ConversationKept>();

  private offset = 34;
  private hear: (event: ServerEvent) => void = () => {};
  private lose: () => void = () => {};

  async predict(request: PredictRequest, _signal?: AbortSignal): Promise<PredictResponse> {
    this.check('predict');
    this.predicted.push(request);
    if ((request.min_offset ?? 0) > this.learned_until) throw new ApiError('it is not learned', 504);
    const unwanted = request.besides ?? [];
    const candidates = CANDIDATES.filter(({ id }) => !unwanted.includes(id));
    const reply = unwanted.length > 0 ? (candidates[0] ?? null) : this.reply;
    return {
      predictions: [{ reply, score: 0.9, propensity: 1, candidates, abstained: reply === null }],
      prediction_ids: request.record ? [`p${this.predicted.length}`] : [],
      model_version: String(this.version),
      learned_until: this.learned_until,
    };
  }

  async giveFeedback(feedback: FeedbackRequest) {
    const said = 'reward' in feedback ? feedback.reward : 'label' in feedback ? feedback.label : feedback.correction;
    this.check(`give ${said}`);
    this.given.push(feedback);
    const receipt: FeedbackFate = { id: feedback.id, offset: ++this.offset, status: 'accepted' };
    this.fates.set(feedback.id, receipt);
    return receipt;
  }

  giveAll(feedback: FeedbackRequest[]) {
    return Promise.all(feedback.map((one) => this.giveFeedback(one)));
  }

  async feedback(id: string) {
    this.check('fate');
    return this.fates.get(id)!;
  }

  async retract(id: string) {
    this.check(`retract ${id}`);
    this.fates.get(id)!.status = 'retracted';
    return { id, offset: ++this.offset, status: 'retracted' as const };
  }

  async why(id: string): Promise<WhyAnswer> {
    this.check(`why ${id}`);
    return { model_version: String(this.version), answered_by: '42', settled: null, grounds: [], witnesses: [] };
  }

  async conversations(user: string, words: string) {
    this.check(`conversations of ${user} with "${words}"`);
    return [...this.kept.values()].filter(({ title }) => title.includes(words));
  }

  async conversation(_: string, id: string) {
    this.check(`conversation ${id}`);
    const kept = this.kept.get(id);
    if (!kept) throw new ApiError('no such conversation', 404);
    return kept;
  }

  async deleteConversation(_: string, id: string) {
    this.check(`delete ${id}`);
    this.kept.delete(id);
  }

  async retire(id: string) {
    this.check(`retire ${id}`);
    return ++this.offset;
  }

  async restore(text: string) {
    this.check(`restore ${text}`);
    return ++this.offset;
  }

  async status(): Promise<ModelStatus> {
    this.check('status');
    const { learned_until } = this;
    return { learned_until, head: this.offset, freshness_ms: { last: null, p50: null, p95: null } };
  }

  async frozen() {
    return this.isFrozen;
  }

  async versions(): Promise<Version[]> {
    this.check('versions');
    const live = { version: String(this.version), learned_until: this.learned_until, live: true };
    return [{ ...live, parent: null, created_at: '2026-11-21T09:00:00Z', durable: true, metrics: {}, labels: ['latest'] }];
  }

  async rollBack(version: string) {
    this.check(`roll back ${version}`);
    this.version = Number(version);
    this.learned_until = 30;
    return { version, learned_until: 30 };
  }

  async learner() {
    this.check('learner');
    return this.learnerNow;
  }

  events(hear: (event: ServerEvent) => void, lose: () => void) {
    [this.hear, this.lose] = [hear, lose];
    return () => {};
  }

  /** Folds all that was accepted into a new version, and tells nobody. */
  learn() {
    this.version += 1;
    this.learned_until = this.offset;
    for (const [id, fate] of this.fates)
      if (fate.status === 'accepted')
        this.fates.set(id, { ...fate, status: 'learned', version: String(this.version), freshness_ms: 61.2 });
  }

  publish() {
    this.learn();
    this.hear({ type: 'published', ...this.now(), freshness_ms: 61.2 });
  }

  refuse(id: string, reason: string) {
    this.fates.set(id, { ...this.fates.get(id)!, status: 'refused', reason });
    this.hear({ type: 'refused', id });
  }

  connect() {
    this.hear({ type: 'status', ...this.now(), learner: this.learnerNow });
  }

  freeze(frozen: Frozen | null) {
    this.hear({ type: 'frozen', frozen });
  }

  disconnect() {
    this.lose();
  }

  private now = () => ({ version: String(this.version), learned_until: this.learned_until });

  private check(call: string) {
    this.calls.push(call);
    if (this.broken !== null) throw new Error(this.broken);
  }
}

/** The page's state on a fake service. Its pause lasts until the test ends it. */
export async function openPage() {
  const api = new FakeApi();
  let endPause = () => {};
  const pause = () => new Promise<void>((resolve) => (endPause = resolve));
  const live = new Live(api, pause);
  let ids = -1; // f0 is the conversation's
  const conversation = new Conversation({ api, live, user: 'ada', newId: () => `f${++ids}` });
  live.start();
  api.connect();
  await settle();
  return { api, live, conversation, endPause: () => endPause() };
}

export async function openAndAsk(question = 'When do you open?') {
  const page = await openPage();
  await page.conversation.ask(question);
  return { ...page, turn: page.conversation.last! };
}

/** Lets every promise that can go on go on; a fake answers at once, so one turn of the event loop is enough. */
export const settle = () => new Promise<void>((resolve) => setTimeout(resolve));

/** An operator's door to the fake: it wants a key where the test says so. */
export class FakeOperatorApi implements OperatorApi {
  labels: VersionLabel[] = [];
  frozen: Frozen | null = null;
  refused: RefusedCandidate[] = [];
  apart: Quarantine[] = [];
  wanted: string | null = null;

  constructor(private service: FakeApi) {}

  async standing() {
    return { labels: this.labels, frozen: this.frozen, refused: this.refused };
  }

  async quarantines() {
    return this.apart;
  }

  async rollBack(version: string, key: string | null) {
    this.let(key);
    return this.service.rollBack(version);
  }

  async freeze(reason: string, key: string | null) {
    this.let(key);
    this.frozen = { since: '2026-11-21T09:00:00Z', reason };
  }

  async thaw(key: string | null) {
    this.let(key);
    this.frozen = null;
  }

  async label(label: string, version: string, key: string | null) {
    this.let(key);
    this.labels = [...this.labels, { label, version, percent: 0 }];
  }

  async unlabel(name: string, key: string | null) {
    this.let(key);
    this.labels = this.labels.filter(({ label }) => label !== name);
  }

  async endQuarantine(outcome: Outcome, key: string | null) {
    this.let(key);
    this.apart = this.apart.map((one) => ({ ...one, outcome, ended_at: '2026-11-21T09:05:00Z' }));
    this.frozen = null;
  }

  private let(key: string | null) {
    if (this.wanted !== null && key !== this.wanted) throw new ApiError('this needs the admin key', 401);
  }
}
