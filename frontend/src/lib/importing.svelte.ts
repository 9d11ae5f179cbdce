/* A file of replies, looked at before anything is taken in.

   choose -> dry run: what each line would change, or what is wrong with it -> take in -> learned
*/

import type { FileFormat, RepertoireApi } from './api';
import { Change } from './change.svelte';
import type { Live } from './live.svelte';
import type { ImportAnswer, ImportedLine } from './schema';
import { messageOf } from './words';

export const KINDS = ['new', 'changed', 'unchanged', 'bad'] as const;
export type Kind = (typeof KINDS)[number];

/** What a line would do, in a word. */
export function kindOf({ does, error }: ImportedLine): Kind {
  if (error !== null) return 'bad';
  if (does.length === 0) return 'unchanged';
  return does.includes('new') ? 'new' : 'changed';
}

export const formatOf = (name: string): FileFormat => (/\.csv$/i.test(name) ? 'csv' : 'jsonl');

export class Importing {
  file = $state.raw<File | null>(null);
  plan = $state.raw<ImportAnswer | null>(null);
  /** Whether the lines that cannot be taken are left out, and the others taken. */
  skipBad = $state(false);
  looking = $state(false);
  problem = $state<string | null>(null);
  change = $state.raw<Change | null>(null);

  counts = $derived.by(() => {
    const counts: Record<Kind, number> = { new: 0, changed: 0, unchanged: 0, bad: 0 };
    for (const line of this.plan?.lines ?? []) counts[kindOf(line)] += 1;
    return counts;
  });
  /** The bad lines first, then what would change; a line that changes nothing is only counted. */
  told = $derived.by(() => {
    const lines = this.plan?.lines ?? [];
    const changes = lines.filter((line) => ['new', 'changed'].includes(kindOf(line)));
    return [...lines.filter(({ error }) => error !== null), ...changes];
  });
  busy = $derived(this.change !== null && !this.change.saved && this.change.failed === null);
  canTake = $derived(
    this.counts.new + this.counts.changed > 0 && (this.counts.bad === 0 || this.skipBad) && !this.busy && !this.looking,
  );

  constructor(
    private api: RepertoireApi,
    private live: Live,
    private changed: () => void,
  ) {}

  /** Looks at a file; changes nothing. */
  async choose(file: File): Promise<void> {
    this.forget();
    [this.file, this.change, this.looking] = [file, null, true];
    try {
      const plan = await this.api.importReplies(file, formatOf(file.name), { dry_run: true, skip_bad: false });
      if (file === this.file) this.plan = plan;
    } catch (error) {
      if (file === this.file) this.problem = messageOf(error);
    }
    if (file === this.file) this.looking = false;
  }

  /** Takes in what was looked at. */
  async take(): Promise<void> {
    const { file } = this;
    if (file === null || !this.canTake) return;
    const how = { dry_run: false, skip_bad: this.skipBad };
    const send = async () => (await this.api.importReplies(file, formatOf(file.name), how)).offset ?? 0;
    this.change = new Change(this.live, send, `imported from ${file.name}`);
    if (await this.change.sent) this.forget();
    this.changed();
  }

  forget() {
    [this.file, this.plan, this.skipBad, this.problem, this.looking] = [null, null, false, null, false];
  }
}
