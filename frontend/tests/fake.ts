/* A service in memory that does what the test says: it learns when told to, and breaks when told to. */

import type { Api } from '../src/lib/api';
import { Conversation } from '../src/lib/conversation.svelte';
import type { ServerEvent } from '../src/lib/events';
import { Live } from '../src/lib/live.svelte';
import type { FeedbackFate, FeedbackRequest, Learner, PredictRequest, PredictResponse, Version } from '../src/lib/schema';

export const CANDIDATES = ['at nine', 'at ten', 'at eleven', 'at noon', 'never'].map((text, index) => ({
  id: `r${index}`,
  text,
  score: 1 - index / 10,
}));

export class FakeApi implements Api {
  calls: string[] = [];
  predicted: PredictRequest[] = [];
  given: FeedbackRequest[] = [];
  fates = new Map<string, FeedbackFate>();
  reply: { id: string; text: string } | null = CANDIDATES[0]!;
  version = 42;
  learned_until = 34;
  learnerNow: Learner = { state: 'running' };
  broken: string | null = null;

  private offset = 34;
  private hear: (event: ServerEvent) => void = () => {};
  private lose: () => void = () => {};

  async predict(request: PredictRequest): Promise<PredictResponse> {
    this.check('predict');
    this.predicted.push(request);
    return {
      predictions: [
        { reply: this.reply, score: 0.9, propensity: 1, candidates: CANDIDATES, abstained: this.reply === null },
      ],
      prediction_ids: request.record ? [`p${this.predicted.length}`] : [],
      model_version: String(this.version),
      learned_until: this.learned_until,
    };
  }

  async giveFeedback(feedback: FeedbackRequest) {
    this.check(`give ${'reward' in feedback ? feedback.reward : feedback.correction}`);
    this.given.push(feedback);
    const receipt: FeedbackFate = { id: feedback.id, offset: ++this.offset, status: 'accepted' };
    this.fates.set(feedback.id, receipt);
    return receipt;
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

  async versions(): Promise<Version[]> {
    this.check('versions');
    const live = { version: String(this.version), learned_until: this.learned_until, live: true };
    return [{ ...live, parent: null, created_at: '2026-11-21T09:00:00Z' }];
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
  let ids = 0;
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
