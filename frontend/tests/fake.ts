/* An in-memory service for tests. It learns, fails and sends events when a test calls for it. */

import { ApiError } from '../src/lib/http';
import type { OperatorApi } from '../src/lib/api/learning';
import type { Api } from '../src/lib/api/chat';
import { Conversation } from '../src/lib/chat/conversation.svelte';
import type { ServerEvent, SetAside } from '../src/lib/ui/events';
import { LiveStatus } from '../src/lib/ui/live_status.svelte';
import type { Rights } from '../src/lib/ui/session.svelte';
import type {
  ConversationChange,
  StoredConversation,
  Curve,
  FeedbackProgress,
  FeedbackRequest,
  Frozen,
  Learner,
  ModelStatus,
  QuarantineOutcome,
  PredictRequest,
  PredictResponse,
  Quarantine,
  RejectedSnapshot,
  Version,
  VersionLabel,
  ExplanationAnswer,
} from '../src/lib/schema';

export const CANDIDATES = ['at nine', 'at ten', 'at eleven', 'at noon', 'never'].map((text, index) => ({
  id: `r${index}`,
  text,
  score: 1 - index / 10,
}));

/** What a visitor may do whose teaching is reviewed. */
export const VISITOR: Rights = { mayRate: true, mayCurate: false, teaching: 'review' };

/** The sentence for a request that fails because the service is `broken`. */
export const FULL = 'The service has no space left. Tell the people who run it.';

export const NO_CURVE: Curve = {
  measure: 'right',
  counted_until: 0,
  head: 0,
  judged: 0,
  judged_right: 0,
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
  sentFeedback: FeedbackRequest[] = [];
  progress = new Map<string, FeedbackProgress>();
  reply: { id: string; text: string } | null = CANDIDATES[0]!;
  candidates = CANDIDATES;
  version = 42;
  learned_until = 34;
  learnerNow: Learner = { state: 'running' };
  isFrozen = false;
  /** Whether new feedback is held for a curator. */
  isReviewed = false;
  /** The error of every request; null if requests succeed. */
  broken: string | null = null;
  stored = new Map<string, StoredConversation>();
  pageSize = 100;

  private offset = 34;
  private onEvent: (event: ServerEvent) => void = () => {};
  private onDisconnect: () => void = () => {};

  async predict(request: PredictRequest, _signal?: AbortSignal): Promise<PredictResponse> {
    this.check('predict');
    this.predicted.push(request);
    if ((request.min_offset ?? 0) > this.learned_until) throw new ApiError('it is not learned', 504);
    const excluded = request.exclude ?? [];
    const candidates = this.candidates.filter(({ id }) => !excluded.includes(id));
    const reply = excluded.length > 0 ? (candidates[0] ?? null) : this.reply;
    return {
      predictions: [{ reply, score: 0.9, propensity: 1, candidates, abstained: reply === null }],
      prediction_ids: request.record ? [`p${this.predicted.length}`] : [],
      model_version: String(this.version),
      learned_until: this.learned_until,
    };
  }

  async giveFeedback(feedback: FeedbackRequest) {
    const content = 'reward' in feedback ? feedback.reward : 'label' in feedback ? feedback.label : feedback.correction;
    this.check(`give ${content}`);
    this.sentFeedback.push(feedback);
    const receipt: FeedbackProgress = this.isReviewed
      ? { id: feedback.id, offset: 0, status: 'held', reason: 'review' }
      : { id: feedback.id, offset: ++this.offset, status: 'accepted' };
    this.progress.set(feedback.id, receipt);
    return receipt;
  }

  giveAll(feedback: FeedbackRequest[]) {
    return Promise.all(feedback.map((one) => this.giveFeedback(one)));
  }

  async feedback(id: string) {
    this.check('outcome');
    return this.progress.get(id)!;
  }

  async retract(id: string) {
    this.check(`retract ${id}`);
    const isHeld = this.progress.get(id)!.status === 'held';
    this.progress.get(id)!.status = 'retracted';
    return { id, offset: isHeld ? 0 : ++this.offset, status: 'retracted' as const };
  }

  async explain(id: string): Promise<ExplanationAnswer> {
    this.check(`why ${id}`);
    return {
      model_version: String(this.version),
      answered_by: '42',
      settled: null,
      grounds: [],
      witnesses: [],
    };
  }

  async conversations(words: string, before: string | null = null) {
    this.check(`conversations with "${words}"`);
    const found = [...this.stored.values()].filter(({ title }) => title.includes(words));
    const from = before === null ? 0 : Number(before);
    const until = from + this.pageSize;
    return {
      conversations: found.slice(from, until),
      next: until < found.length ? String(until) : null,
    };
  }

  async changeConversation(id: string, change: ConversationChange) {
    this.check(`change ${id} ${JSON.stringify(change)}`);
    const changed = { ...this.stored.get(id)!, ...change };
    this.stored.set(id, changed);
    return changed;
  }

  async shareConversation(id: string, until: string | null) {
    this.check(`share ${id} until ${until ?? 'now'}`);
    this.stored.set(id, { ...this.stored.get(id)!, share_id: `shared-${id}` });
    return { share_id: `shared-${id}` };
  }

  async unshareConversation(id: string) {
    this.check(`unshare ${id}`);
    this.stored.set(id, { ...this.stored.get(id)!, share_id: null });
  }

  async conversation(id: string) {
    this.check(`conversation ${id}`);
    const conversation = this.stored.get(id);
    if (!conversation) throw new ApiError('no such conversation', 404);
    return conversation;
  }

  async deleteConversation(id: string) {
    this.check(`delete ${id}`);
    this.stored.delete(id);
  }

  async retire(id: string) {
    this.check(`retire ${id}`);
    return ++this.offset;
  }

  async restore(id: string) {
    this.check(`restore ${id}`);
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
    return [
      {
        ...live,
        parent: null,
        created_at: '2026-11-21T09:00:00Z',
        durable: true,
        metrics: {},
        labels: ['latest'],
      },
    ];
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

  events(onEvent: (event: ServerEvent) => void, onDisconnect: () => void) {
    [this.onEvent, this.onDisconnect] = [onEvent, onDisconnect];
    return () => {};
  }

  /** Decide about held feedback, without an event. */
  decide(id: string, status: 'accepted' | 'rejected') {
    const offset = status === 'accepted' ? ++this.offset : 0;
    this.progress.set(id, { id, offset, status });
  }

  /** Learn all accepted feedback into a new version, without an event. */
  learn() {
    this.version += 1;
    this.learned_until = this.offset;
    for (const [id, outcome] of this.progress)
      if (outcome.status === 'accepted')
        this.progress.set(id, {
          ...outcome,
          status: 'learned',
          version: String(this.version),
          freshness_ms: 61.2,
        });
  }

  publish() {
    this.learn();
    this.onEvent({ type: 'published', ...this.now(), freshness_ms: 61.2 });
  }

  /** The log has grown. */
  receive() {
    this.onEvent({ type: 'received', head: this.offset });
  }

  refuse(id: string, reason: string) {
    this.progress.set(id, { ...this.progress.get(id)!, status: 'refused', reason });
    this.onEvent({ type: 'refused', id });
  }

  /** Reject held feedback. reason: where no person has decided. */
  reject(id: string, reason?: string) {
    this.progress.set(id, { id, offset: 0, status: 'rejected', ...(reason && { reason }) });
    this.onEvent({ type: 'rejected', id });
  }

  connect() {
    this.onEvent({ type: 'status', ...this.now(), learner: this.learnerNow });
  }

  freeze(frozen: Frozen | null) {
    this.onEvent({ type: 'frozen', frozen });
  }

  setAside(set_aside: SetAside | null) {
    this.onEvent({ type: 'set_aside', set_aside });
  }

  disconnect() {
    this.onDisconnect();
  }

  private now = () => ({ version: String(this.version), learned_until: this.learned_until });

  private check(call: string) {
    this.calls.push(call);
    if (this.broken !== null) throw new ApiError(this.broken, 507);
  }
}

export const ALL_RIGHTS: Rights = { mayRate: true, mayCurate: true, teaching: 'on' };

/** The page's state on a fake service. Its pauses last until the test ends them. */
export async function openPage(rights: Rights = ALL_RIGHTS) {
  const api = new FakeApi();
  let endPause = () => {};
  const pause = () => new Promise<void>((resolve) => (endPause = resolve));
  const live = new LiveStatus(api, pause);
  let ids = -1; // f0 is the id of the conversation
  const conversation = new Conversation({ api, live, newId: () => `f${++ids}`, rights });
  live.start();
  api.connect();
  await settle();
  return { api, live, conversation, endPause: () => endPause() };
}

export async function openAndAsk(rights: Rights = ALL_RIGHTS) {
  const page = await openPage(rights);
  await page.conversation.ask('When do you open?');
  return { ...page, turn: page.conversation.last! };
}

/** Let all pending promises continue. A fake answers at once, so one turn of the event loop is enough. */
export const settle = () => new Promise<void>((resolve) => setTimeout(resolve));

/** The operator's requests to the fake. */
export class FakeOperatorApi implements OperatorApi {
  labels: VersionLabel[] = [];
  frozen: Frozen | null = null;
  refused: RejectedSnapshot[] = [];
  quarantined: Quarantine[] = [];

  constructor(private service: FakeApi) {}

  async versionState() {
    return { labels: this.labels, frozen: this.frozen, refused: this.refused };
  }

  async quarantines() {
    return this.quarantined;
  }

  async rollBack(version: string, freeze: string | null) {
    const done = await this.service.rollBack(version);
    if (freeze !== null) await this.freeze(freeze);
    return done;
  }

  async freeze(reason: string) {
    this.frozen = { since: '2026-11-21T09:00:00Z', reason };
  }

  async thaw() {
    this.frozen = null;
  }

  async label(label: string, version: string) {
    this.labels = [...this.labels, { label, version, percent: 0 }];
  }

  async unlabel(name: string) {
    this.labels = this.labels.filter(({ label }) => label !== name);
  }

  async endQuarantine(outcome: QuarantineOutcome) {
    this.quarantined = this.quarantined.map((one) => ({
      ...one,
      outcome,
      ended_at: '2026-11-21T09:05:00Z',
    }));
    this.frozen = null;
  }
}
