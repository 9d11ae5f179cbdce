/* Feedback that waits for the service: kept in the order in which it was given, and learned there once.

     give, retract --> store --> waiting --> sending --> sent --> outcome: learned, held, ...
                         ^                      |  \-> refused, with the reason: the person drops or edits it
          other tabs ----/                      \--> waiting again: no answer, too many requests, an error of the server

   One tab sends at a time (Web Locks); the others follow (BroadcastChannel). Where a tab is closed while it sends, or an
   answer is lost, the same item is sent again: the service knows it by its id, and answers with the same receipt.
*/

import type { QueueApi } from '../api/offline';
import { ApiError } from '../http';
import type { FeedbackItem, Receipt } from '../schema';
import type { Pause } from '../ui/live_status.svelte';
import type { LocalExample, OfflineStore, QueuedItem } from './store';

const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 60_000;
const MAX_RETRY_AFTER_MS = 600_000; // a timer of more than 24 days would end at once
const OUTCOME_PAUSE_MS = 500;
const MAX_OUTCOME_POLLS = 240;
/** Of statuses below 500: the caller is not known now, the service is busy, or learns something else. */
const WAITING_STATUSES = [401, 408, 425, 429];
const UNAUTHORIZED = 401;
const NOT_FOUND = 404;
const MAX_SENT = 300; // of one model, that are kept because no version here has learned them
export const MAX_ITEMS = 2000; // of one owner that were not accepted yet: more than a day of drawing

/** Runs work while no other tab does. */
export type Exclusively = (work: () => Promise<void>) => Promise<void>;

/** Tells the other tabs of this browser that the store has changed. */
export interface Tabs {
  announce(): void;
  listen(onChange: () => void): void;
}

interface Dependencies {
  store: OfflineStore;
  api: QueueApi;
  /** Who gives feedback now; null while that is not known. */
  owner: () => string | null;
  /** Ask the service who that is, before each item: another tab may sign in as somebody else. Rejects if it does not say. */
  confirmOwner: () => Promise<void>;
  /** Whether the service cannot be reached. Then the queue waits for `flush`. */
  isLost: () => boolean;
  exclusively: Exclusively;
  tabs: Tabs;
  newId: () => string;
  now: () => Date;
  pause: Pause;
}

/** How many of the items that were sent last came to what. */
export interface SentCounts {
  learned: number;
  held: number;
  refused: number;
  retracted: number;
}

/** What is said, as the queue keeps it. */
export type Opinion = Pick<QueuedItem, 'kind' | 'title' | 'example'> & { body: FeedbackItem };

export type NewItem = Pick<QueuedItem, 'id' | 'model' | 'kind' | 'title' | 'body' | 'of' | 'example'>;

/** Raised where too much waits. */
export class QueueFull extends Error {}

interface Delivery {
  id: string;
  resolve: (receipt: Receipt | null) => void;
  reject: (error: ApiError) => void;
}

export class Queue {
  /** Of all owners. */
  private all = $state.raw<QueuedItem[]>([]);
  /** What became of what was sent since the connection returned; null for nothing. */
  sentCounts = $state.raw<SentCounts | null>(null);

  /** The items of this caller, oldest first. */
  items = $derived.by(() => this.all.filter(({ owner }) => owner === this.dependencies.owner()));
  /** Those that the service has not answered. */
  waiting = $derived(this.items.filter(({ state }) => state === 'waiting' || state === 'sending'));
  refused = $derived(this.items.filter(({ state }) => state === 'refused'));
  isSending = $derived(this.items.some(({ state }) => state === 'sending'));
  /** The items of other callers that wait in this browser, until they are back; none while it is not known who this
      caller is. */
  ofOthers = $derived.by(() => {
    const by = this.dependencies.owner();
    return this.all.filter(({ owner, state }) => by !== null && owner !== by && state !== 'sent');
  });

  private deliveries: Delivery[] = [];
  private flushing: Promise<void> | null = null;
  private isFollowing = false;
  private listeners: (() => void)[] = [];

  constructor(private dependencies: Dependencies) {
    dependencies.tabs.listen(() => void this.reload());
  }

  /** Call back after each change, also one by another tab. */
  onChange(listener: () => void) {
    this.listeners.push(listener);
  }

  /** Read what is kept. */
  async reload(): Promise<void> {
    this.all = await this.dependencies.store.items();
    for (const delivery of this.deliveries.splice(0)) this.settle(delivery);
    for (const listener of this.listeners) notify(listener);
  }

  /** Keep feedback until the service has it. body: complete, with an id of its own. maybeReceived: whether the page has
      sent it before. Returns the id. Raises an error where it cannot be kept. */
  async give(model: string, { kind, title, body, example }: Opinion, maybeReceived = false): Promise<string> {
    const item = { id: body.id!, model, kind, title, body, of: null, example };
    return this.add(item, { maybeReceived });
  }

  /** Take feedback back: one that never left this browser is dropped, for another a retraction waits.
      example: what it had taught, where this device knows. maybeReceived: whether the page has sent the retraction
      before. Returns the id of the retraction; null for none. */
  async retract(
    model: string,
    id: string,
    example: LocalExample | null = null,
    maybeReceived = false,
  ): Promise<string | null> {
    const { store, newId } = this.dependencies;
    const known = this.items.find((one) => one.id === id);
    const left = await store.change(id, (item) => (item.maybeReceived ? item : null));
    if (left === null) {
      await this.announce();
      return null;
    }
    // Where there is none, the service has it: this page has sent it directly, or another tab has sent and pruned it.
    return this.add(
      {
        id: newId(),
        model,
        body: null,
        of: id,
        kind: 'retraction',
        title: known?.title ?? example?.label ?? '',
        example: known?.example ?? example,
      },
      { maybeReceived },
    );
  }

  /** Note what the service has just accepted: the version that is kept here may not have learned it. */
  async noteSent(item: NewItem, receipt: Receipt): Promise<void> {
    await this.add(item, {
      state: 'sent',
      maybeReceived: true,
      receipt,
      outcome: receipt.status,
    });
  }

  /** Drop an item: one that waits as if it had never been given, a refused one from the list. */
  async remove({ id, of, model, state }: QueuedItem): Promise<void> {
    if (of === null && state !== 'refused') return void (await this.retract(model, id));
    await this.dependencies.store.change(id, (item) => (item.maybeReceived && item.state !== 'refused' ? item : null));
    await this.announce();
  }

  /** Send a refused item once more with another label, or another correction, as new feedback. */
  async edit(item: QueuedItem, text: string): Promise<void> {
    const { store, newId } = this.dependencies;
    if (item.body === null) return;
    const { correction } = item.body;
    const isLabel = correction == null;
    const changed = isLabel ? { label: text } : { correction: text };
    const taught = isLabel ? { label: text } : { label: text, text };
    const example = item.example && { ...item.example, ...taught };
    const body = { ...item.body, ...changed, id: newId() };
    await this.give(item.model, { ...item, title: text, body, example });
    await store.change(item.id, () => null); // only now: it may be all that is left of it
    await this.announce();
    void this.flush();
  }

  /** Resolves with the receipt once the service has accepted the item, with null once it was removed; rejects with
      the error if it was refused. */
  delivered(id: string): Promise<Receipt | null> {
    return new Promise((resolve, reject) => this.settle({ id, resolve, reject }));
  }

  /** Send what waits, in order. Returns once nothing is left, or the service cannot take more now. Calls meanwhile
      share the work. */
  flush(): Promise<void> {
    this.flushing ??= this.sendWaiting().finally(() => (this.flushing = null));
    return this.flushing;
  }

  /** Forget what was sent and is part of a kept version, and the oldest of many others. learnedUntil: of that version. */
  async prune(model: string, learnedUntil: number): Promise<void> {
    const { store } = this.dependencies;
    const done = this.items.filter((item) => item.model === model && isDone(item));
    const gone = done.filter(
      ({ receipt }, place) => (receipt?.offset ?? 0) <= learnedUntil || place < done.length - MAX_SENT,
    );
    for (const { id } of gone) await store.change(id, () => null);
    if (gone.length > 0) await this.announce();
  }

  /** Delete all that this browser keeps for other callers, and with it what waits: it is lost then. owners: those that
      the person was asked about. The one who is here by now keeps everything. Rejects where the store does. */
  async forgetOthers(owners: ReadonlySet<string>): Promise<void> {
    for (const owner of owners) if (owner !== this.dependencies.owner()) await this.dependencies.store.clear(owner);
    await this.announce();
  }

  dismissCounts() {
    this.sentCounts = null;
  }

  private async add(
    item: NewItem,
    progress: Partial<Pick<QueuedItem, 'state' | 'maybeReceived' | 'receipt' | 'outcome'>> = {},
  ): Promise<string> {
    const { store, owner, now } = this.dependencies;
    const by = owner();
    if (by === null) throw new Error('it is not known yet who gives the feedback');
    if (this.waiting.length + this.refused.length >= MAX_ITEMS) throw new QueueFull();
    await store.add({
      ...item,
      owner: by,
      made_at: now().toISOString(),
      state: 'waiting',
      maybeReceived: false,
      receipt: null,
      outcome: null,
      refusal: null,
      ...progress,
    });
    await this.announce();
    return item.id;
  }

  private async announce() {
    await this.reload();
    this.dependencies.tabs.announce();
  }

  private settle(delivery: Delivery) {
    const item = this.all.find(({ id }) => id === delivery.id);
    if (item === undefined) delivery.resolve(null);
    else if (item.receipt !== null) delivery.resolve(item.receipt);
    else if (item.refusal !== null) delivery.reject(new ApiError(item.refusal.message, item.refusal.status));
    else this.deliveries.push(delivery);
  }

  // sending

  private async sendWaiting() {
    let pause_ms = FIRST_PAUSE_MS;
    while (this.waiting.length > 0) {
      const again_ms = await this.sendAll();
      if (again_ms === null) continue; // more may have been given meanwhile
      if (again_ms === Infinity) break;
      await this.dependencies.pause(Math.max(again_ms, pause_ms));
      if (this.dependencies.isLost()) break; // its return brings the next attempt
      pause_ms = Math.min(2 * pause_ms, MAX_PAUSE_MS);
    }
    void this.followSent();
  }

  /** Send until nothing is left; then it returns null. Otherwise as `sendOne`. */
  private async sendAll(): Promise<number | null> {
    let again_ms: number | null = null;
    await this.dependencies.exclusively(async () => {
      await this.reload(); // another tab may have sent some
      while (again_ms === null && this.waiting.length > 0) again_ms = await this.sendNext();
    });
    return again_ms;
  }

  /** Send the next item of the caller for whom, as the service says, this browser speaks. Returns as `sendOne`. */
  private async sendNext(): Promise<number | null> {
    try {
      await this.dependencies.confirmOwner();
    } catch (error) {
      return waitAfter(error);
    }
    const [next] = this.waiting;
    return next === undefined ? null : this.sendOne(next.id);
  }

  /** Returns null if it was sent, refused or removed; else after how many milliseconds to try again: Infinity for not by itself. */
  private async sendOne(id: string): Promise<number | null> {
    const { store } = this.dependencies;
    const item = await store.change(id, (one) => ({
      ...one,
      state: 'sending',
      maybeReceived: true,
    }));
    await this.announce();
    if (!item) return null;
    const { changed, again_ms } = await this.send(item).then(
      (receipt) => ({ changed: { state: 'sent' as const, receipt }, again_ms: null }),
      toFailure,
    );
    await store.change(id, (one) => ({ ...one, ...changed }));
    await this.announce();
    return again_ms;
  }

  private async send({ model, body, of, id }: QueuedItem): Promise<Receipt> {
    const { api } = this.dependencies;
    if (body !== null) return api.give(model, body);
    try {
      return await api.retract(model, of!);
    } catch (error) {
      // What the service does not know, or knows no longer, it has not learned.
      if (error instanceof ApiError && error.status === NOT_FOUND) return { id, offset: 0, status: 'retracted' };
      throw error;
    }
  }

  // outcomes

  /** Ask what became of what was sent, until that is known. */
  private async followSent() {
    if (this.isFollowing) return;
    this.isFollowing = true;
    const { pause } = this.dependencies;
    for (let polls = 0; polls < MAX_OUTCOME_POLLS && (await this.askOutcomes()); polls += 1)
      await pause(OUTCOME_PAUSE_MS);
    this.isFollowing = false;
  }

  /** Returns whether some are not known yet. */
  private async askOutcomes(): Promise<boolean> {
    const { api, store } = this.dependencies;
    const open = this.items.filter(({ state, outcome }) => state === 'sent' && outcome === null);
    for (const { id, model, of } of open) {
      const found = of === null ? await api.outcome(model, id).catch(toOutcome) : { status: 'retracted' as const };
      if (found === null || found.status === 'accepted') continue;
      await store.change(id, (one) => ({ ...one, outcome: found.status }));
      this.count(found.status);
    }
    if (open.length > 0) await this.announce();
    return this.items.some(({ state, outcome }) => state === 'sent' && outcome === null);
  }

  private count(status: Receipt['status']) {
    const counts = this.sentCounts ?? { learned: 0, held: 0, refused: 0, retracted: 0 };
    const name =
      status === 'rejected' || status === 'accepted' ? 'refused' : status === 'quarantined' ? 'held' : status;
    this.sentCounts = { ...counts, [name]: counts[name] + 1 };
  }
}

const NO_ANSWER = { status: 0, message: '', retryAfter_s: null };

/** What the service does not know any more is not learned; after another error it is asked again. */
const toOutcome = (error: unknown) =>
  error instanceof ApiError && error.status === NOT_FOUND ? { status: 'rejected' as const } : null;

function notify(listener: () => void) {
  try {
    listener();
  } catch {
    // what is kept is kept, whatever else follows from it
  }
}

/** What becomes of an item that the service did not accept. again_ms: as `sendOne` returns it. */
function toFailure(error: unknown) {
  const { status, message } = error instanceof ApiError ? error : NO_ANSWER;
  const isRefused = status >= 400 && status < 500 && !WAITING_STATUSES.includes(status);
  return isRefused
    ? { changed: { state: 'refused' as const, refusal: { status, message } }, again_ms: null }
    : { changed: { state: 'waiting' as const }, again_ms: waitAfter(error) };
}

/** After how many milliseconds to try again, at least. Infinity: without a session, the person brings the next attempt. */
function waitAfter(error: unknown): number {
  const { status, retryAfter_s } = error instanceof ApiError ? error : NO_ANSWER;
  if (status === UNAUTHORIZED) return Infinity;
  return Math.min(1000 * (retryAfter_s ?? 0), MAX_RETRY_AFTER_MS);
}

const isDone = ({ state, outcome }: QueuedItem) => state === 'sent' && outcome !== null;
