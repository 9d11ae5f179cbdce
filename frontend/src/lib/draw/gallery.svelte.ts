/* What was taught by drawings: small pictures of each class, which survive a reload.

   load --> classes, each with its newest drawings --> forget one (an undo teaches it once more), forget a class
*/

import type { DrawApi } from '../api/draw';
import type { Offlineable } from '../api/model';
import { t } from '../messages';
import type { RejectedExample, Taught, TaughtClass, TaughtExample } from '../schema';
import { coalesce } from '../ui/coalesce';
import type { Pause } from '../ui/live_status.svelte';
import { count } from '../ui/wording';
import type { Sketches } from './sketches';

const SHOWN_OF_EACH = 60;
const REST_MS = 300; // pause between two requests

export type Whose = 'user' | 'everyone';

export interface Approved {
  id: string;
  label: string;
}

/** What a curator approved, in words. */
export function describeApproval(approved: readonly Approved[]): string {
  const [first] = approved;
  if (approved.length === 1 && first) return t.draw.approval.one(first.label);
  return t.draw.approval.several(count(approved.length));
}

interface Dependencies {
  api: Pick<Offlineable<DrawApi>, 'examples' | 'forgetClass' | 'teachAgain' | 'retract'>;
  sketches: Sketches;
  newId: () => string;
  pause: Pause;
  complain: (error: unknown) => void;
}

export class Gallery {
  /** null until they were loaded. The class that was taught last is the first. */
  classes = $state.raw<TaughtClass[] | null>(null);
  whose = $state<Whose>('user');
  /** Own drawings that were learned after a curator had approved them, as the last request told. */
  approved = $state.raw<Approved[]>([]);
  /** Own drawings that a curator rejected, the newest first. */
  rejected = $state.raw<RejectedExample[]>([]);

  /** Classes that the model may guess, with at least one drawing. */
  shown = $derived((this.classes ?? []).filter(({ active }) => active));
  drawingCount = $derived(this.shown.reduce((sum, { count }) => sum + count, 0));
  heldCount = $derived(this.shown.reduce((sum, { held }) => sum + held, 0));
  classCount = $derived(this.shown.filter(({ count }) => count > 0).length);
  /** Whether drawings are listed of which only the features are known. */
  hasSquares = $derived(this.shown.some(({ examples }) => examples.some((one) => one.input && !this.strokesOf(one))));
  isEmpty = $derived(this.classes !== null && this.shown.length === 0);

  /** Own drawings that were held when they were last listed, or are approved and not learned yet. */
  private waiting = new Set<string>();

  /** Load again soon. */
  refresh: () => void;

  /** Drawings of earlier visits, until it is known which of them the service still has. */
  private earlier: string[];

  constructor(private dependencies: Dependencies) {
    this.earlier = dependencies.sketches.ids();
    this.refresh = coalesce(() => this.load(), dependencies.pause, REST_MS);
  }

  show(whose: Whose) {
    this.whose = whose;
    this.refresh();
  }

  /** A drawing of the class, for its picture. */
  pictureOf(label: string): TaughtExample | undefined {
    return this.shown.find((one) => one.label === label)?.examples[0];
  }

  /** Whether a drawing is listed as one that waits to be checked. */
  isHeld({ id }: { id: string }): boolean {
    const listed = (this.classes ?? []).flatMap(({ examples }) => examples);
    return listed.some((one) => one.id === id && one.status === 'held');
  }

  /** The strokes of a drawing that was made in this browser. */
  strokesOf({ id }: { id: string }) {
    return this.dependencies.sketches.of(id);
  }

  async load(): Promise<void> {
    const { api, sketches, complain } = this.dependencies;
    const { whose } = this;
    try {
      const taught = await api.examples(whose, SHOWN_OF_EACH);
      if (whose === this.whose) this.classes = taught.classes;
      if (whose === 'user') {
        this.rejected = taught.rejected;
        this.noteApproved(taught.classes);
        for (const id of forgottenAmong(this.earlier, taught)) sketches.drop(id);
        this.earlier = []; // what is forgotten on this page can be taught once more, with its strokes
      }
    } catch (error) {
      complain(error);
    }
  }

  private noteApproved(classes: TaughtClass[]) {
    const listed = classes.flatMap(({ label, examples }) => examples.map(({ id, status }) => ({ id, label, status })));
    const approved = listed.filter(({ id, status }) => status === 'learned' && this.waiting.has(id));
    for (const { id, status } of listed) {
      if (status === 'held') this.waiting.add(id);
      else if (status !== 'accepted') this.waiting.delete(id);
    }
    if (approved.length > 0) this.approved = approved;
  }

  /** Take a drawing back. retract: how, where it was drawn on this page. Returns whether it is forgotten. */
  async forget(
    example: TaughtExample,
    retract: () => Promise<unknown> = () => this.dependencies.api.retract(example.id),
  ): Promise<boolean> {
    const before = this.classes;
    this.classes = without(before ?? [], example);
    try {
      await retract();
      return true;
    } catch (error) {
      this.classes = before;
      this.dependencies.complain(error);
      return false;
    } finally {
      this.refresh();
    }
  }

  /** Teach a forgotten drawing once more. */
  async restore(example: TaughtExample, label: string): Promise<void> {
    const { api, sketches, newId, complain } = this.dependencies;
    const id = newId();
    try {
      await api.teachAgain(example, label, id);
      sketches.rename(example.id, id);
    } catch (error) {
      complain(error);
    }
    this.refresh();
  }

  /** Forget all own drawings of a class. Returns how many were taken back; null if that failed. */
  async forgetClass(label: string): Promise<number | null> {
    try {
      return await this.dependencies.api.forgetClass(label);
    } catch (error) {
      this.dependencies.complain(error);
      return null;
    } finally {
      this.refresh();
    }
  }
}

/** The classes without one drawing, and without a class that has none left. */
function without(classes: TaughtClass[], { id, status }: TaughtExample): TaughtClass[] {
  return classes
    .map((one) => {
      const examples = one.examples.filter((each) => each.id !== id);
      if (examples.length === one.examples.length) return one;
      const [held, count] = status === 'held' ? [1, 0] : [0, 1];
      return { ...one, examples, count: one.count - count, held: one.held - held };
    })
    .filter(({ count, held }) => count + held > 0);
}

/** The drawings that the service no longer has, such as after an erasure. None where it did not list all. */
function forgottenAmong(ids: readonly string[], { classes, rejected }: Taught): string[] {
  if (classes.some(({ examples, count, held }) => examples.length < count + held)) return [];
  const known = [...classes.flatMap(({ examples }) => examples), ...rejected];
  const listed = new Set(known.map(({ id }) => id));
  return ids.filter((id) => !listed.has(id));
}
