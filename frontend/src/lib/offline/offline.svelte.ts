/* The page without the service: what is kept in this browser, what waits, and who answers. */

import { queueApi } from '../api/offline';
import { coalesce } from '../ui/coalesce';
import type { Connection } from '../ui/connection.svelte';
import type { LiveStatus } from '../ui/live_status.svelte';
import { newId } from '../ui/identity';
import { pause } from '../ui/pause';
import type { Session } from '../ui/session.svelte';
import { LocalModel, type LocalLearner, type ModelOptions } from './local_model.svelte';
import { Queue } from './queue.svelte';
import { openStore, type OfflineStore } from './store';
import { exclusively, openTabs } from './tabs';

const KEEP_EVERY_MS = 60_000; // what was taught here meanwhile is in the queue
const DAY_MS = 86_400_000;
const MAX_AWAY_DAYS = 30; // then what is kept for a caller, but what waits, is deleted

/** Answers of one kind that are kept one by one. Each method: of an owner, taken once when the work begins; null has none.
    The first two reject where the store does. */
export interface KeptParts {
  all(owner: string | null): Promise<unknown[]>;
  /** null for none. */
  find(owner: string | null, id: string): Promise<unknown>;
  /** In one step, which no other tab comes between. change: as `OfflineStore.changeAnswer`. Nothing is changed where the
      page speaks for somebody else by now. Rejects where there is no room. */
  change(owner: string | null, id: string, change: (value: unknown) => unknown): Promise<void>;
}

const nameOf = (name: string, model: string) => `${name} of ${model}`;

/** Who the page speaks for. */
type Identity = Pick<Session, 'owner' | 'confirm'>;

export class Offline {
  readonly queue: Queue;
  readonly newId = newId;
  /** The model that answers on the page shown, if the service cannot; null where none can. */
  answering = $state.raw<LocalModel<LocalLearner> | null>(null);

  private constructor(
    private store: OfflineStore,
    readonly connection: Connection,
    private identity: Identity,
  ) {
    this.queue = new Queue({
      store,
      api: queueApi,
      owner: () => identity.owner,
      confirmOwner: identity.confirm,
      isLost: () => connection.lost,
      exclusively,
      tabs: openTabs(),
      newId,
      now: () => new Date(),
      pause,
    });
  }

  /** Open what is kept, and send what waits whenever the service can be reached. */
  static async open(connection: Connection, identity: Identity): Promise<Offline> {
    const offline = new Offline(await openStore(globalThis.indexedDB, pause), connection, identity);
    await offline.queue.reload();
    connection.onRecovery(() => void offline.queue.flush());
    void offline.queue.flush(); // which asks first whether the service answers
    return offline;
  }

  /** A model that answers on this device. */
  async openModel<L extends LocalLearner>(options: ModelOptions<L>): Promise<LocalModel<L>> {
    const local = new LocalModel({
      ...options,
      store: this.store,
      queue: this.queue,
      owner: () => this.identity.owner,
      now: () => new Date(),
    });
    void this.expire();
    await local.load();
    return local;
  }

  /** Let a model answer on the page shown, and keep its newest version while the service can be reached. Returns a
      function that ends this. Must be called in an effect. */
  follow(local: LocalModel<LocalLearner>, live: LiveStatus): () => void {
    this.answering = local;
    const keep = coalesce(
      async () => {
        const { streaming, version } = live;
        if (streaming && version !== null) await local.keep(version);
      },
      pause,
      KEEP_EVERY_MS,
    );
    $effect(() => {
      if (live.streaming && live.version !== null) keep();
    });
    return () => (this.answering = null);
  }

  /** Who the page speaks for now; null while that is not known. Work that waits must take it once, when it begins. */
  get owner(): string | null {
    return this.identity.owner;
  }

  /** Ask the service who the page speaks for now: another tab may have signed in as somebody else. It stays as it was
      where the service does not say. */
  async confirmOwner(): Promise<void> {
    await this.identity.confirm().catch(() => {});
  }

  /** Keep an answer of the service, for a page that is opened without it. owner: for whom the service gave it. Nothing is
      kept where the page speaks for somebody else by now. */
  async remember(name: string, model: string, value: unknown, owner = this.owner): Promise<void> {
    if (owner === null || owner !== this.owner) return;
    await this.store.keepAnswer({ owner, name: nameOf(name, model), value: structuredClone(value) }).catch(() => {}); // there is no room: it is not shown without the service
  }

  async recall<T>(name: string, model: string, owner = this.owner): Promise<T | null> {
    if (owner === null) return null;
    return ((await this.store.answer(owner, nameOf(name, model))) as T | null) ?? null;
  }

  /** What is kept in parts for a caller. */
  parts(name: string, model: string): KeptParts {
    const prefix = `${nameOf(name, model)}: `;
    return {
      all: async (owner) => (owner === null ? [] : this.store.answers(owner, prefix)),
      find: async (owner, id) => (owner === null ? null : this.store.answer(owner, prefix + id)),
      change: async (owner, id, change) => {
        if (owner === null || owner !== this.owner) return;
        await this.store.changeAnswer(owner, prefix + id, change);
      },
    };
  }

  /** Delete what is kept for callers who were not here for long. What they have not sent stays. */
  private async expire(): Promise<void> {
    const { owner } = this.identity;
    if (owner === null) return;
    const now = Date.now();
    const since = new Date(now - MAX_AWAY_DAYS * DAY_MS);
    await this.store.expire(owner, new Date(now).toISOString(), since.toISOString()).catch(() => {}); // the next visit tries again
  }

  /** Delete everything that is kept for a caller. */
  async forget(owner: string): Promise<void> {
    await this.store.clear(owner);
    await this.queue.reload();
  }
}
