/* What this browser keeps for the time without the service: feedback that waits, and the last version of each model.

     queue    place -> QueuedItem     in the order in which it was given, for all tabs
     models   [owner, model] -> KeptModel
     answers  [owner, name] -> KeptAnswer      such as the drawings that were taught
     owners   owner -> when that owner was here last

   IndexedDB, used directly: three small transactions do not need a library. Where the browser offers no database, as in
   some private windows, or it does not open, everything is kept in memory and lasts as long as the page.
*/

import type { ExportedFile } from '../http';
import type { Pause } from '../ui/live_status.svelte';
import type { FeedbackItem, Receipt } from '../schema';

const NAME = 'online.offline';
const VERSION = 3;
const MAX_OPENING_MS = 3000; // the pages wait for it

/** What this device learns from feedback, or un-learns with a retraction. reward: in [0, 1]; below 0.5, the label was wrong. */
export interface LocalExample {
  input: unknown;
  label: string;
  reward: number;
  /** Of a correction: the reply, which may be new. */
  text?: string;
}

/** Why the service refused an item. status: of its answer. */
export interface Refusal {
  status: number;
  message: string;
}

export type ItemState = 'waiting' | 'sending' | 'sent' | 'refused';

export type ItemKind = 'name' | 'good' | 'wrong' | 'correction' | 'retraction';

/** Feedback, or the retraction of one, on its way to the service. */
export interface QueuedItem {
  /** Of the feedback: the key by which the service knows it again. Of a retraction, an id of its own. */
  id: string;
  /** Who gave it, see `ownerOf`: it is never sent for somebody else. */
  owner: string;
  model: string;
  kind: ItemKind;
  /** What the list of what waits shows: a name, or the text of a reply. */
  title: string;
  /** What is sent. It never changes: the service compares it with what it knows by the id. null: a retraction. */
  body: FeedbackItem | null;
  /** The feedback that a retraction takes back. */
  of: string | null;
  /** null where this device cannot learn it. */
  example: LocalExample | null;
  made_at: string;
  state: ItemState;
  /** Whether it may have reached the service, so that removing it here is not enough. */
  maybeReceived: boolean;
  receipt: Receipt | null;
  /** Whether what became of it is known: it was learned, refused, held or retracted. */
  outcome: Receipt['status'] | null;
  refusal: Refusal | null;
}

/** A version of a model, as the service exported it. */
export interface KeptModel extends ExportedFile {
  owner: string;
  model: string;
  kept_at: string;
}

/** An answer of the service that a page shows again without it. */
export interface KeptAnswer {
  owner: string;
  name: string;
  value: unknown;
}

/** seen_at: when the pages were opened for this owner last. */
interface SeenOwner {
  owner: string;
  seen_at: string;
}

export interface OfflineStore {
  /** In the order in which they were added. */
  items(): Promise<QueuedItem[]>;
  add(item: QueuedItem): Promise<void>;
  /** Change an item in one step, which no other tab comes between. change: returns null to delete it. Returns it as it is
      then: null where this has deleted it, undefined where there was none. */
  change(id: string, change: (item: QueuedItem) => QueuedItem | null): Promise<QueuedItem | null | undefined>;
  model(owner: string, model: string): Promise<KeptModel | null>;
  /** Rejects with a QuotaExceededError where there is no room. */
  keepModel(kept: KeptModel): Promise<void>;
  dropModel(owner: string, model: string): Promise<void>;
  /** null for none. */
  answer(owner: string, name: string): Promise<unknown>;
  /** Those whose names begin with a prefix. */
  answers(owner: string, prefix: string): Promise<unknown[]>;
  keepAnswer(kept: KeptAnswer): Promise<void>;
  /** Change an answer in one step, which no other tab comes between. change: gets null where there is none; returns null
      to delete it. */
  changeAnswer(owner: string, name: string, change: (value: unknown) => unknown): Promise<void>;
  /** Delete everything that belongs to an owner. */
  clear(owner: string): Promise<void>;
  /** Note that an owner is here at an instant, and delete the models, the answers and the sent items of those who were not
      since another. What was not sent stays. Both instants: ISO 8601, UTC. */
  expire(owner: string, at: string, since: string): Promise<void>;
}

/** The store of this browser; one in memory where there is no database. */
export async function openStore(factory: IDBFactory | undefined, pause: Pause): Promise<OfflineStore> {
  try {
    if (factory) return new DatabaseStore(await open(factory, pause));
  } catch {
    // switched off, damaged, or held by another tab
  }
  return new MemoryStore();
}

function open(factory: IDBFactory, pause: Pause): Promise<IDBDatabase> {
  const opening = factory.open(NAME, VERSION);
  opening.onupgradeneeded = ({ oldVersion }) => {
    const database = opening.result;
    if (oldVersion < 1) {
      const queue = database.createObjectStore('queue', { autoIncrement: true });
      queue.createIndex('id', 'id', { unique: true });
      database.createObjectStore('models', { keyPath: ['owner', 'model'] });
      database.createObjectStore('answers', { keyPath: ['owner', 'name'] });
    }
    if (oldVersion < 2) database.createObjectStore('owners', { keyPath: 'owner' });
    if (oldVersion === 1) noteOwners(opening.transaction!);
    if (oldVersion === 1 || oldVersion === 2) splitConversations(opening.transaction!);
  };
  return new Promise((resolve, reject) => {
    let hasGivenUp = false;
    const giveUp = () => {
      hasGivenUp = true;
      reject(new Error('the database does not open')); // without effect once it is open
    };
    opening.onsuccess = () => (hasGivenUp ? opening.result.close() : resolve(opening.result));
    opening.onerror = giveUp;
    opening.onblocked = giveUp;
    void pause(MAX_OPENING_MS).then(giveUp);
  });
}

/** Version 1 did not note who was here: everybody of whom something is kept counts as seen now. */
function noteOwners(transaction: IDBTransaction) {
  const owners = transaction.objectStore('owners');
  const seen_at = new Date().toISOString();
  for (const name of ['queue', 'models', 'answers'])
    visit<{ owner: string }>(transaction.objectStore(name), ({ value: { owner } }) => owners.put({ owner, seen_at }));
}

/** Until version 2, all conversations with a model were one answer. */
function splitConversations(transaction: IDBTransaction) {
  const answers = transaction.objectStore('answers');
  visit<KeptAnswer>(answers, (cursor) => {
    const { owner, name, value } = cursor.value;
    if (!name.startsWith('conversations of ')) return;
    const each = name.replace('conversations', 'conversation');
    for (const one of value as { id: string }[]) answers.put({ owner, name: `${each}: ${one.id}`, value: one });
    cursor.delete();
  });
}

const resultOf = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('the database does not answer'));
  });

const completed = (transaction: IDBTransaction): Promise<void> =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error('the transaction ended'));
  });

class DatabaseStore implements OfflineStore {
  constructor(private database: IDBDatabase) {
    // Another tab has a newer page, which needs another layout: this one must not keep it waiting.
    database.onversionchange = () => database.close();
  }

  items(): Promise<QueuedItem[]> {
    const queue = this.database.transaction('queue').objectStore('queue');
    return resultOf(queue.getAll() as IDBRequest<QueuedItem[]>);
  }

  async add(item: QueuedItem): Promise<void> {
    const transaction = this.writing('queue');
    transaction.objectStore('queue').add(item);
    await completed(transaction);
  }

  async change(id: string, change: (item: QueuedItem) => QueuedItem | null) {
    const transaction = this.writing('queue');
    const opening = transaction.objectStore('queue').index('id').openCursor(id);
    let changed: QueuedItem | null | undefined;
    opening.onsuccess = () => {
      const cursor = opening.result;
      if (cursor === null) return;
      changed = change(cursor.value as QueuedItem);
      if (changed === null) cursor.delete();
      else cursor.update(changed);
    };
    await completed(transaction);
    return changed;
  }

  async model(owner: string, model: string): Promise<KeptModel | null> {
    return ((await this.get('models', [owner, model])) as KeptModel | undefined) ?? null;
  }

  async keepModel(kept: KeptModel): Promise<void> {
    await this.put('models', kept);
  }

  async dropModel(owner: string, model: string): Promise<void> {
    const transaction = this.writing('models');
    transaction.objectStore('models').delete([owner, model]);
    await completed(transaction);
  }

  async answer(owner: string, name: string): Promise<unknown> {
    return ((await this.get('answers', [owner, name])) as KeptAnswer | undefined)?.value ?? null;
  }

  async answers(owner: string, prefix: string): Promise<unknown[]> {
    const range = IDBKeyRange.bound([owner, prefix], [owner, `${prefix}\uffff`]);
    const answers = this.database.transaction('answers').objectStore('answers');
    const found = await resultOf(answers.getAll(range) as IDBRequest<KeptAnswer[]>);
    return found.map(({ value }) => value);
  }

  async keepAnswer(kept: KeptAnswer): Promise<void> {
    await this.put('answers', kept);
  }

  async changeAnswer(owner: string, name: string, change: (value: unknown) => unknown) {
    const transaction = this.writing('answers');
    const answers = transaction.objectStore('answers');
    const reading = answers.get([owner, name]) as IDBRequest<KeptAnswer | undefined>;
    reading.onsuccess = () => {
      const value = change(reading.result?.value ?? null);
      if (value !== null) answers.put({ owner, name, value });
      else if (reading.result) answers.delete([owner, name]);
    };
    await completed(transaction);
  }

  async clear(owner: string): Promise<void> {
    const transaction = this.writing('queue', 'models', 'answers', 'owners');
    for (const name of transaction.objectStoreNames) deleteOf(transaction.objectStore(name), (one) => one === owner);
    await completed(transaction);
  }

  async expire(owner: string, at: string, since: string): Promise<void> {
    const transaction = this.writing('queue', 'models', 'answers', 'owners');
    const owners = transaction.objectStore('owners');
    owners.put({ owner, seen_at: at });
    const listing = owners.getAll() as IDBRequest<SeenOwner[]>;
    listing.onsuccess = () => {
      const isGone = createGone(listing.result, since);
      for (const name of transaction.objectStoreNames) deleteOf(transaction.objectStore(name), isGone, isForgettable);
    };
    await completed(transaction);
  }

  private get(name: string, key: IDBValidKey): Promise<unknown> {
    return resultOf(this.database.transaction(name).objectStore(name).get(key));
  }

  private async put(name: string, value: unknown): Promise<void> {
    const transaction = this.writing(name);
    transaction.objectStore(name).put(value);
    await completed(transaction);
  }

  private writing(...names: string[]): IDBTransaction {
    // strict: what the page calls kept has reached the disk.
    return this.database.transaction(names, 'readwrite', { durability: 'strict' });
  }
}

/** A record of any store. state: of an item of the queue. */
type Owned = { owner: string; state?: ItemState };

/** Whether a record may expire: all but what was not sent. */
const isForgettable = ({ state }: Owned) => state === undefined || state === 'sent';

/** Delete the records of some owners, or only some of them. */
function deleteOf(
  store: IDBObjectStore,
  isGone: (owner: string) => boolean,
  mayDelete: (record: Owned) => boolean = () => true,
) {
  visit<Owned>(store, (cursor) => {
    if (isGone(cursor.value.owner) && mayDelete(cursor.value)) cursor.delete();
  });
}

type Visited<T> = Omit<IDBCursorWithValue, 'value'> & { readonly value: T };

/** Call back with each record of a store. */
function visit<T>(store: IDBObjectStore, onRecord: (cursor: Visited<T>) => void) {
  const opening = store.openCursor();
  opening.onsuccess = () => {
    const cursor = opening.result;
    if (cursor === null) return;
    onRecord(cursor);
    cursor.continue();
  };
}

/** Returns whether an owner was not here since an instant. */
function createGone(owners: readonly SeenOwner[], since: string) {
  const seen = new Set(owners.filter(({ seen_at }) => seen_at >= since).map(({ owner }) => owner));
  return (owner: string) => !seen.has(owner);
}

export class MemoryStore implements OfflineStore {
  private queue = new Map<string, QueuedItem>();
  private models = new Map<string, KeptModel>();
  private kept = new Map<string, KeptAnswer>();
  private owners = new Map<string, SeenOwner>();

  async items() {
    return [...this.queue.values()];
  }

  async add(item: QueuedItem) {
    if (this.queue.has(item.id)) throw new Error(`the queue has an item ${item.id} already`);
    this.queue.set(item.id, structuredClone(item));
  }

  async change(id: string, change: (item: QueuedItem) => QueuedItem | null) {
    const item = this.queue.get(id);
    if (item === undefined) return undefined;
    const changed = change(item);
    if (changed === null) this.queue.delete(id);
    else this.queue.set(id, changed);
    return changed;
  }

  async model(owner: string, model: string) {
    return this.models.get(keyOf(owner, model)) ?? null;
  }

  async keepModel(kept: KeptModel) {
    this.models.set(keyOf(kept.owner, kept.model), kept);
  }

  async dropModel(owner: string, model: string) {
    this.models.delete(keyOf(owner, model));
  }

  async answer(owner: string, name: string) {
    return this.kept.get(keyOf(owner, name))?.value ?? null;
  }

  async answers(owner: string, prefix: string) {
    const found = [...this.kept.values()].filter((one) => one.owner === owner && one.name.startsWith(prefix));
    return found.map(({ value }) => value);
  }

  async changeAnswer(owner: string, name: string, change: (value: unknown) => unknown) {
    const value = change(this.kept.get(keyOf(owner, name))?.value ?? null);
    if (value === null) this.kept.delete(keyOf(owner, name));
    else this.kept.set(keyOf(owner, name), { owner, name, value: structuredClone(value) });
  }

  async keepAnswer(kept: KeptAnswer) {
    this.kept.set(keyOf(kept.owner, kept.name), kept);
  }

  async clear(owner: string) {
    const maps = [this.queue, this.models, this.kept, this.owners];
    for (const map of maps) deleteFrom(map, (one) => one === owner);
  }

  async expire(owner: string, at: string, since: string) {
    this.owners.set(owner, { owner, seen_at: at });
    const isGone = createGone([...this.owners.values()], since);
    for (const map of [this.queue, this.models, this.kept, this.owners]) deleteFrom(map, isGone, isForgettable);
  }
}

function deleteFrom(
  map: Map<string, Owned>,
  isGone: (owner: string) => boolean,
  mayDelete: (record: Owned) => boolean = () => true,
) {
  for (const [key, record] of map) if (isGone(record.owner) && mayDelete(record)) map.delete(key);
}

const keyOf = (...parts: string[]) => JSON.stringify(parts);
