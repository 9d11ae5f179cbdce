/* The present state of the service: the live version, its offset, and the learner.

   events ----------\
                     > take -> version, learned_until, learner -> wakes the waiters
   poll, if no events/
*/

import type { ModelApi } from '../api/model';
import { wordCause } from './causes';
import type { ServerEvent, SetAside } from './events';
import { t } from '../messages';
import type { FeedbackProgress, Frozen, Learner, Receipt, Version } from '../schema';

const POLL_MS = 1000;
const VERSIONS_SHOWN = 8;
const MIN_DECISION_POLL_MS = 10_000;
const MAX_DECISION_POLL_MS = 320_000;

export type Pause = (ms: number) => Promise<void>;

interface Waiter {
  id: string;
  offset: number;
  wake: () => void;
}

export class LiveStatus {
  version = $state<string | null>(null);
  learnedUntil = $state(-1);
  freshness_ms = $state<number | null>(null);
  learner = $state<Learner | null>(null);
  versions = $state.raw<Version[]>([]);
  /** Whether the event stream is connected. Otherwise the state is polled. */
  streaming = $state(false);

  frozen = $state.raw<Frozen | null>(null);
  setAside = $state.raw<SetAside | null>(null);
  learnerPaused = $derived(this.learner?.state === 'stopped' || this.learner?.state === 'restarting');
  /** Why saved feedback is not learned now; null if it is learned. */
  holdReason = $derived(
    this.frozen !== null
      ? t.ui.hold.frozen(wordCause(this.frozen.cause, this.frozen.reason))
      : this.learnerPaused
        ? t.ui.hold.paused
        : null,
  );
  shownVersions = $derived(this.versions.slice(0, VERSIONS_SHOWN));

  private waiters: Waiter[] = [];
  private polling = false;
  private listing = false;
  private listAgain = false;
  private stopEvents = () => {};
  private stopped = false;

  constructor(
    private api: Pick<ModelApi<unknown, unknown>, 'versions' | 'rollBack' | 'feedback' | 'learner' | 'events'>,
    private pause: Pause,
    /** Called after each event was handled here. */
    private afterEvent: (event: ServerEvent) => void = () => {},
  ) {}

  /** Can be called again after `stop`: waiters are then woken with the missed events. */
  start() {
    this.stopped = false;
    this.stopEvents = this.api.events(
      (event) => {
        this.handleEvent(event);
        this.afterEvent(event);
      },
      () => this.onDisconnect(),
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
    this.setLive(now.version, now.learned_until);
    await this.listVersions();
  }

  /** Resolves when the feedback is learned, refused or retracted. */
  async awaitOutcome({ id, offset }: Receipt): Promise<FeedbackProgress> {
    let news = this.awaitOffset(id, offset);
    for (;;) {
      await news;
      news = this.nextEvent(id, offset); // registered before the request, so that no event is missed in between
      // A failed request is repeated at the next event: the server may be starting.
      const outcome = await this.api.feedback(id).catch(() => null);
      if (outcome && outcome.status !== 'accepted') return outcome;
    }
  }

  /** Resolves when held feedback was decided about. Asks now and then as well: another server, which sends no
      event here, may have decided. */
  async awaitDecision({ id, offset }: Receipt): Promise<FeedbackProgress> {
    for (let pause_ms = MIN_DECISION_POLL_MS; ; pause_ms = Math.min(2 * pause_ms, MAX_DECISION_POLL_MS)) {
      await this.awaitNews(id, offset, pause_ms);
      const outcome = await this.api.feedback(id).catch(() => null);
      if (outcome && outcome.status !== 'held') return outcome;
    }
  }

  /** Resolves when learned feedback was retracted, also by somebody else. */
  async awaitRetraction(id: string): Promise<void> {
    for (;;) {
      await this.nextEvent(id, Infinity);
      const outcome = await this.api.feedback(id).catch(() => null);
      if (outcome?.status === 'retracted') return;
    }
  }

  /** Resolves with the next event that concerns feedback `id` or `offset`, or after a pause. */
  private async awaitNews(id: string, offset: number, pause_ms: number): Promise<void> {
    let waiter: Waiter | undefined;
    const event = new Promise<void>((wake) => this.waiters.push((waiter = { id, offset, wake })));
    await Promise.race([this.pause(pause_ms), event]);
    this.waiters = this.waiters.filter((one) => one !== waiter);
  }

  /** Resolves once the live version has learned the event at `offset`, or another event concerns feedback `id`. */
  awaitOffset(id: string, offset: number): Promise<void> {
    return this.learnedUntil >= offset ? Promise.resolve() : this.nextEvent(id, offset);
  }

  private nextEvent(id: string, offset: number): Promise<void> {
    return new Promise((wake) => this.waiters.push({ id, offset, wake }));
  }

  private handleEvent(event: ServerEvent) {
    switch (event.type) {
      case 'status':
        this.streaming = true;
        this.learner = event.learner;
        this.frozen = event.frozen ?? null;
        this.setAside = event.set_aside ?? null;
        this.setLive(event.version, event.learned_until);
        void this.listVersions();
        return this.wake(() => true); // events may have been missed before
      case 'published':
        this.freshness_ms = event.freshness_ms ?? this.freshness_ms;
        this.setLive(event.version, event.learned_until);
        void this.listVersions();
        return this.wake(({ offset }) => offset <= event.learned_until);
      case 'rolled_back':
        this.setLive(event.version, event.learned_until);
        return void this.listVersions();
      case 'frozen':
        this.frozen = event.frozen;
        return;
      case 'set_aside':
        this.setAside = event.set_aside;
        return void this.listVersions();
      case 'labelled':
        return void this.listVersions();
      case 'adapted':
      case 'counted':
      case 'inbox':
      case 'received':
        return;
      default:
        return this.wake(({ id }) => id === event.id);
    }
  }

  private setLive(version: string, learnedUntil: number) {
    this.version = version;
    this.learnedUntil = learnedUntil;
  }

  private wake(isConcerned: (waiter: Waiter) => boolean) {
    const [now, later] = [this.waiters.filter(isConcerned), this.waiters.filter((one) => !isConcerned(one))];
    this.waiters = later;
    for (const { wake } of now) wake();
  }

  private onDisconnect() {
    this.streaming = false;
    void this.pollUntilStreaming();
  }

  private async pollUntilStreaming() {
    if (this.polling) return;
    this.polling = true;
    for (;;) {
      await this.pause(POLL_MS); // the stream, if it can be opened, begins with the state
      if (this.streaming || this.stopped) break;
      await this.poll();
    }
    this.polling = false;
  }

  private async poll() {
    await this.listVersions();
    const learner = await this.api.learner().catch(() => null);
    if (this.streaming) return; // events arrived meanwhile and are newer
    this.learner = learner;
    const live = this.versions.find((version) => version.live);
    if (live) this.setLive(live.version, live.learned_until);
    this.wake(() => true);
  }

  /** Request one list at a time. Versions published meanwhile share the next request. */
  async listVersions() {
    this.listAgain = true;
    if (this.listing) return;
    this.listing = true;
    while (this.listAgain) {
      this.listAgain = false;
      this.versions = await this.api.versions().catch(() => this.versions); // keep the previous list
    }
    this.listing = false;
  }
}
