/* A file of replies, previewed before it is imported.

   choose -> dry run: changes and errors of each line -> import -> learned
*/

import type { ImportFormat, RepertoireApi } from '../api/repertoire';
import { Change } from './change.svelte';
import type { LiveStatus } from '../ui/live_status.svelte';
import type { ImportAnswer, ImportedLine, LineProblem } from '../schema';
import { t } from '../messages';
import { detailOf } from '../ui/problems';
import { count } from '../ui/wording';

export const LINE_EFFECTS = ['new', 'changed', 'unchanged', 'invalid'] as const;
export type LineEffect = (typeof LINE_EFFECTS)[number];

/** The effect of a line in one word. */
export function effectOf({ does, error }: ImportedLine): LineEffect {
  if (error !== null) return 'invalid';
  if (does.length === 0) return 'unchanged';
  return does.includes('new') ? 'new' : 'changed';
}

/** What is wrong with a line, as a sentence with its number: "Line 4 is not JSON." */
export function describeProblem(line: number, { code, field, entry, about }: LineProblem): string {
  const words = t.repertoire.file;
  const where = words.field(field ?? '', entry === null ? null : count(entry));
  return words.problems[code](count(line), where, about ?? '');
}

const WORKBOOK = /\.(xls[xmb]?|ods|numbers)$/i; // the service reads .xlsx, and says what the others are

export function formatOf(name: string): ImportFormat {
  if (WORKBOOK.test(name)) return 'xlsx';
  return /\.(csv|tsv)$/i.test(name) ? 'csv' : 'jsonl';
}

export class ReplyImport {
  file = $state.raw<File | null>(null);
  plan = $state.raw<ImportAnswer | null>(null);
  /** Whether invalid lines are skipped and the others imported. */
  skipBad = $state(false);
  isChecking = $state(false);
  problem = $state<string | null>(null);
  change = $state.raw<Change | null>(null);

  counts = $derived.by(() => {
    const counts: Record<LineEffect, number> = { new: 0, changed: 0, unchanged: 0, invalid: 0 };
    for (const line of this.plan?.lines ?? []) counts[effectOf(line)] += 1;
    return counts;
  });
  /** Invalid lines first, then those with examples that another reply has, then other changes. Lines without effect are only counted. */
  listedLines = $derived.by(() => {
    const lines = this.plan?.lines ?? [];
    const changes = lines.filter((line) => ['new', 'changed'].includes(effectOf(line)));
    const shares = changes.filter(({ shared }) => shared.length > 0);
    const others = changes.filter(({ shared }) => shared.length === 0);
    return [...lines.filter(({ error }) => error !== null), ...shares, ...others];
  });
  busy = $derived(this.change !== null && !this.change.saved && this.change.failed === null);
  canApply = $derived(
    this.counts.new + this.counts.changed > 0 &&
      (this.counts.invalid === 0 || this.skipBad) &&
      !this.busy &&
      !this.isChecking,
  );

  constructor(
    private api: RepertoireApi,
    private live: LiveStatus,
    private onChange: () => void,
  ) {}

  /** Preview a file. Nothing changes. */
  async choose(file: File): Promise<void> {
    this.reset();
    [this.file, this.change, this.isChecking] = [file, null, true];
    try {
      const plan = await this.api.importReplies(file, formatOf(file.name), {
        dry_run: true,
        skip_bad: false,
      });
      if (file === this.file) this.plan = plan;
    } catch (error) {
      if (file === this.file) this.problem = detailOf(error);
    }
    if (file === this.file) this.isChecking = false;
  }

  /** Import the previewed file. */
  async apply(): Promise<void> {
    const { file } = this;
    if (file === null || !this.canApply) return;
    const options = { dry_run: false, skip_bad: this.skipBad };
    const send = async () => (await this.api.importReplies(file, formatOf(file.name), options)).offset ?? 0;
    this.change = new Change(this.live, send, t.repertoire.steps.imported(file.name));
    if (await this.change.sent) this.reset();
    this.onChange();
  }

  reset() {
    [this.file, this.plan, this.skipBad, this.problem, this.isChecking] = [null, null, false, null, false];
  }
}
