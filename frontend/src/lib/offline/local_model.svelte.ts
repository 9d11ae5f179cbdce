/* A model that answers on this device: the last version that the service exported, and what waits in the queue on top of it.

     service --file of a version--> store --> learner --\
                                    queue --examples------> answers
                                                   back online: the service's version answers again

   The sums of the learner are integers: what is learned can be un-learned exactly. So the learner follows the queue item
   by item, whichever tab changes it, until a version that has learned an item takes its place.
*/

import type { ExportApi } from '../api/offline';
import { ApiError, FileTooLarge, type ExportedFile } from '../http';
import type { Receipt } from '../schema';
import type { NewItem, Queue } from './queue.svelte';
import type { KeptModel, LocalExample, OfflineStore, QueuedItem } from './store';

export const MAX_FILE_BYTES = 8_000_000;

/** What answers on this device, made from a file. */
export interface LocalLearner {
  /** The offset until which the file has learned everything; 0: it holds no feedback. */
  readonly learnedUntil: number;
  learn(example: LocalExample): void;
  unlearn(example: LocalExample): void;
}

/** Why no newer version is kept; null while it is. */
export type MissingReason = 'not_allowed' | 'too_large' | 'no_room' | 'failed';

export interface ModelOptions<L extends LocalLearner> {
  model: string;
  /** Whether this caller may have the file. */
  mayKeep: () => boolean;
  /** Raises an error for a file that it cannot read. */
  read: (file: Uint8Array) => L;
  api: ExportApi;
  /** The kept file, changed to that of a version; null where it is that already. Rejects where the whole file must be
      loaded. Left out where files have no deltas. */
  update?: (kept: ExportedFile, model: string, version: string) => Promise<ExportedFile | null>;
  /** Whether its answers are simpler than those of the service. */
  isSimpler: () => boolean;
}

interface Dependencies<L extends LocalLearner> extends ModelOptions<L> {
  store: OfflineStore;
  queue: Queue;
  owner: () => string | null;
  now: () => Date;
}

export class LocalModel<L extends LocalLearner> {
  missing = $state<MissingReason | null>(null);
  /** Changes whenever the learner has learned something. */
  revision = $state(0);

  private kept = $state.raw<Read<L> | null>(null);
  /** The one of this caller: another tab may have signed in as somebody else. */
  private own = $derived.by(() => (this.kept?.owner === this.dependencies.owner() ? this.kept : null));
  /** The version that is kept; null for none. */
  version = $derived(this.own?.version ?? null);
  learner = $derived(this.own?.learner ?? null);

  /** What the learner has learned from the queue, by the id of the item; null where it cannot learn it. */
  private applied = new Map<string, Applied | null>();
  /** The checksum of the newest file, if it was too large: it is not requested again. */
  private tooLarge: string | null = null;
  private keeping: Promise<void> | null = null;

  constructor(private dependencies: Dependencies<L>) {
    dependencies.queue.onChange(() => this.follow());
  }

  get name(): string {
    return this.dependencies.model;
  }

  get isSimpler(): boolean {
    return this.dependencies.isSimpler();
  }

  /** Read what is kept. */
  async load(): Promise<void> {
    const { store, owner, model, mayKeep } = this.dependencies;
    const by = owner();
    if (by === null) return;
    if (!mayKeep()) return this.drop(by);
    try {
      const kept = await store.model(by, model);
      if (kept !== null) this.use(kept);
    } catch {
      this.missing = 'failed'; // of an older page, or damaged
    }
  }

  /** Note what the service has just accepted: the version, and the list, that are kept here may not have it. */
  async note(item: Omit<NewItem, 'model'>, receipt: Receipt): Promise<void> {
    await this.dependencies.queue.noteSent({ ...item, model: this.name }, receipt).catch(() => {}); // it is accepted all the same
  }

  /** Keep a version. Calls meanwhile share the request. */
  keep(version: string): Promise<void> {
    this.keeping ??= this.fetch(version).finally(() => (this.keeping = null));
    return this.keeping;
  }

  private async fetch(version: string) {
    const { store, owner, model, queue, now, mayKeep } = this.dependencies;
    const by = owner();
    if (by === null) return;
    if (!mayKeep()) {
      await this.drop(by);
      return queue.prune(model, Infinity);
    }
    try {
      const found = await this.findNewer(version);
      if (found !== null) {
        const kept = { ...found, owner: by, model, kept_at: now().toISOString() };
        this.use(kept);
        this.tooLarge = null;
        await store.keepModel(kept);
      }
      this.missing = this.tooLarge === null ? null : 'too_large';
    } catch (error) {
      if (error instanceof FileTooLarge) this.tooLarge = error.etag;
      this.missing = reasonOf(error);
      if (this.missing === 'not_allowed') await this.drop(by);
    }
    await queue.prune(model, this.learner?.learnedUntil ?? Infinity);
  }

  /** The newest file until a version; null where it is the one that is known. */
  private async findNewer(version: string): Promise<ExportedFile | null> {
    const { api, model, update } = this.dependencies;
    if (update && this.own !== null && this.tooLarge === null)
      try {
        const updated = await update(this.own, model, version);
        if (updated === null || updated.file.length <= MAX_FILE_BYTES) return updated;
      } catch {
        // no delta, or not of this file: the whole file says why, or takes its place
      }
    const known = this.tooLarge ?? this.own?.etag ?? '';
    return api.exported(model, version, known, MAX_FILE_BYTES);
  }

  /** Delete the version of a caller who may not have it any more. */
  private async drop(owner: string) {
    const { store, model } = this.dependencies;
    this.missing = 'not_allowed';
    this.kept = null;
    await store.dropModel(owner, model).catch(() => {}); // the next visit tries again
  }

  private use(kept: KeptModel) {
    this.kept = { ...kept, learner: this.dependencies.read(kept.file) };
    this.applied.clear();
    this.follow();
  }

  /** Let the learner have learned exactly what is in the queue and not in the version. */
  private follow() {
    const { learner, applied } = this;
    if (learner === null) return;
    const wanted = examplesBeyond(this.name, learner.learnedUntil, this.dependencies.queue.items);
    for (const [id, one] of applied)
      if (!wanted.has(id)) {
        applied.delete(id);
        // Where it cannot be undone, such as with scales that were fitted, the file is the way back.
        if (one !== null && !apply(learner, { ...one, learns: !one.learns })) return this.use(this.kept!);
      }
    for (const [id, one] of wanted) if (!applied.has(id)) applied.set(id, apply(learner, one) ? one : null);
    this.revision += 1;
  }
}

/** A version, and what was made of its file. */
type Read<L extends LocalLearner> = KeptModel & { learner: L };

/** learns: false if the example is un-learned. */
interface Applied {
  example: LocalExample;
  learns: boolean;
}

/** Returns whether the learner accepts the example. The service decides by itself what it learns. */
function apply(learner: LocalLearner, { example, learns }: Applied): boolean {
  try {
    if (learns) learner.learn(example);
    else learner.unlearn(example);
    return true;
  } catch {
    return false; // such as too many classes: it is all or nothing
  }
}

/** What a version of a model has not learned of the queue, by the id of the item. A retraction and what it takes back
    leave nothing to learn. */
export function examplesBeyond(
  model: string,
  learnedUntil: number,
  items: readonly QueuedItem[],
): Map<string, Applied> {
  const beyond = items.filter(
    (item) => item.model === model && item.state !== 'refused' && (item.receipt?.offset ?? Infinity) > learnedUntil, // what is held for a curator has the offset 0
  );
  const given = new Set(beyond.map(({ id }) => id));
  const takenBack = new Set(beyond.map(({ of }) => of));
  const examples = new Map<string, Applied>();
  for (const { id, of, example } of beyond) {
    if (example === null || takenBack.has(id) || (of !== null && given.has(of))) continue;
    examples.set(id, { example, learns: of === null });
  }
  return examples;
}

/** By the status of the answer. */
const REASONS: Record<number, MissingReason> = { 403: 'not_allowed', 413: 'too_large' };

/** Why something cannot be kept. */
export function reasonOf(error: unknown): MissingReason {
  if (error instanceof ApiError) return REASONS[error.status] ?? 'failed';
  const isFull = error instanceof DOMException && error.name === 'QuotaExceededError';
  return isFull ? 'no_room' : 'failed';
}
