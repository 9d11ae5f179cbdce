/* What the service does right now: the version that answers, how far it has learned, whether the learner runs.

   events ----------\
                     > take -> version, learned_until, learner -> wakes whoever waits for its feedback
   poll, if no events/
*/

import type { ModelApi } from './api';
import type { ServerEvent } from './events';
import type { FeedbackFate, Frozen, Learner, Receipt, Version } from './schema';

const POLL_MS = 1000;
const VERSIONS_SHOWN = 8;

/** What it asks of a model, whichever. */
export type LiveApi = Pick<
  ModelApi<unknown, unknown>,
  'versions' | 'rollBack' | 'feedback' | 'learner' | 'events'
>;
export type Pause = (ms: number) => Promise<void>;

interface Waiting {
  id: string;
  offset: number;
  wake: () => void;
}

export class Live {
  version = $state<string | null>(null);
  learnedUntil = $state(-1);
  freshness_ms = $state<number | null>(null);
  learner = $state<Learner | null>(null);
  versions = $state.raw<Version[]>([]);
  /** Whether the event stream is up; while it is not, a poll stands in for it. */
  streaming = $state(false);

  frozen = $state.raw<Frozen | null>(null);
  learnerPaused = $derived(this.learner?.state === 'stopped' || this.learner?.state === 'restarting');
  /** Why feedback that is saved is not learned for now; null where it is. */
  held = $derived(
    this.frozen !== null
      ? `set apart until learning goes on: ${this.frozen.reason || 'it was frozen'}`
      : this.learnerPaused
        ? 'learned as soon as the learner is back'
        : null,
  );
  shownVersions = $derived(this.versions.slice(0, VERSIONS_SHOWN));

  private waiting: Waiting[] = [];
  private polling = false;
  private listing = false;
  private listAgain = false;
  private stopEvents = () => {};
  private stopped = false;

  constructor(
    private api: LiveApi,
    private pause: Pause,
    /** Whoever else wants to know what happens, after it is known here. */
    private heard: (event: ServerEvent) => void = () => {},
  ) {}

  /** May be started again after a stop: those who wait meanwhile learn then what became of their feedback. */
  start() {
    this.stopped = false;
    this.stopEvents = this.api.events(
      (event) => {
        this.take(event);
        this.heard(event);
      },
      () => this.lose(),
    );
    void this.pollUntilStreaming();
  }

  stop() {
    this.stopped = true;
    this.streaming = false;
    this.stopEvents();
  }

  async rollBack(version: string) {
    const now = await this.api.rollBack(version);
    this.see(now.version, now.learned_until);
    await this.listVersions();
  }

  /** What became of one feedback, once that is known. */
  async settled({ id, offset }: Receipt): Promise<FeedbackFate> {
    let news = this.reached(id, offset);
    for (;;) {
      await news;
      news = this.nextNews(id, offset); // before asking, so that no news falls between the answer and the wait
      // A failed question is asked again at the next news: the server may be starting.
      const fate = await this.api.feedback(id).catch(() => null);
      if (fate && fate.status !== 'accepted') return fate;
    }
  }

  /** Resolves once the live version has learned the event at `offset`, or there is other news of feedback `id`. */
  reached(id: string, offset: number): Promise<void> {
    return this.learnedUntil >= offset ? Promise.resolve() : this.nextNews(id, offset);
  }

  private nextNews(id: string, offset: number): Promise<void> {
    return new Promise((wake) => this.waiting.push({ id, offset, wake }));
  }

  private take(event: ServerEvent) {
    switch (event.type) {
      case 'status':
        this.streaming = true;
        this.learner = event.learner;
        this.frozen = event.frozen ?? null;
        this.see(event.version, event.learned_until);
        void this.listVersions();
        return this.wake(() => true); // after a gap in the stream, anything may have happened
      case 'published':
        this.freshness_ms = event.freshness_ms ?? this.freshness_ms;
        this.see(event.version, event.learned_until);
        void this.listVersions();
        return this.wake(({ offset }) => offset <= event.learned_until);
      case 'rolled_back':
        this.see(event.version, event.learned_until);
        return void this.listVersions();
      case 'frozen':
        this.frozen = event.frozen;
        return;
      case 'labelled':
        return void this.listVersions();
      case 'adapted':
      case 'counted':
        return;
      default:
        return this.wake(({ id }) => id === event.id);
    }
  }

  private see(version: string, learnedUntil: number) {
    this.version = version;
    this.learnedUntil = learnedUntil;
  }

  private wake(concerned: (waiting: Waiting) => boolean) {
    const [now, later] = [this.waiting.filter(concerned), this.waiting.filter((one) => !concerned(one))];
    this.waiting = later;
    for (const { wake } of now) wake();
  }

  private lose() {
    this.streaming = false;
    void this.pollUntilStreaming();
  }

  private async pollUntilStreaming() {
    if (this.polling) return;
    this.polling = true;
    while (!this.streaming && !this.stopped) {
      await this.poll();
      await this.pause(POLL_MS);
    }
    this.polling = false;
  }

  private async poll() {
    await this.listVersions();
    const learner = await this.api.learner().catch(() => null);
    if (this.streaming) return; // events came meanwhile, and know better
    this.learner = learner;
    const live = this.versions.find((version) => version.live);
    if (live) this.see(live.version, live.learned_until);
    this.wake(() => true);
  }

  /** One list at a time: where versions come faster than lists, those that came meanwhile share the next one. */
  async listVersions() {
    this.listAgain = true;
    if (this.listing) return;
    this.listing = true;
    while (this.listAgain) {
      this.listAgain = false;
      this.versions = await this.api.versions().catch(() => this.versions); // an old list is better than none
    }
    this.listing = false;
  }
}
