/* What the columns of a file are, as the service recognises them in its first rows, and which of them are read.

   look(file, label) -> listed, with what is done with each -> toggle(name) -> choice, for the replay
*/

import { ApiError } from '../http';
import type { ColumnChoice, ReplaysApi } from '../api/reports';
import type { RecognisedColumn, RecognisedColumns } from '../schema';
import { wordCause } from '../ui/causes';
import { detailOf } from '../ui/problems';

const FIRST_BYTES = 1_000_000; // of a text, that are sent to be looked at
const MOST_BYTES = 16_000_000; // of a file that cannot be cut

const ALL: ColumnChoice = { drop: [], features: [] };

/** Why the service did not take a file. */
export const wordRefusal = (error: unknown) =>
  wordCause(error instanceof ApiError ? error.details.cause : null, detailOf(error));

/** What is sent of a file: the first lines of a text, and else the whole file; null if that is too large. */
async function cut(file: File): Promise<Blob | null> {
  if (/\.(gz|zst|parquet)$/i.test(file.name)) return file.size <= MOST_BYTES ? file : null;
  if (file.size <= FIRST_BYTES) return file;
  const first = new Uint8Array(await file.slice(0, FIRST_BYTES).arrayBuffer());
  const end = first.lastIndexOf(10) + 1;
  return end > 0 ? new Blob([first.subarray(0, end)]) : null;
}

export class Columns {
  /** As the service recognises all of them; null: not known. */
  private found = $state.raw<RecognisedColumns | null>(null);
  /** The same of those that are chosen; null until a choice was made. */
  private chosen = $state.raw<RecognisedColumns | null>(null);
  private read = $state.raw<ReadonlySet<string>>(new Set());
  problem = $state<string | null>(null);
  isLooking = $state(false);
  /** Whether the file is too large to be looked at before its replay. */
  isTooLarge = $state(false);

  rows = $derived(this.found?.rows ?? 0);
  /** Each column, and whether it is read. */
  listed = $derived(
    (this.found?.columns ?? []).map((column) => ({
      ...this.treated(column),
      isRead: this.read.has(column.name),
    })),
  );
  hasNone = $derived(this.listed.length > 0 && this.read.size === 0);
  choice = $derived.by((): ColumnChoice => {
    const columns = this.found?.columns ?? [];
    const isRead = ({ name }: RecognisedColumn) => this.read.has(name);
    if (columns.some((each) => isRead(each) && each.treatment === 'left_out'))
      return { drop: [], features: columns.filter(isRead).map(({ name }) => name) };
    const dropped = columns.filter((each) => !isRead(each) && each.treatment !== 'left_out');
    return { drop: dropped.map(({ name }) => name), features: [] };
  });

  private file: File | null = null;
  private label = '';
  private looks = 0;

  constructor(private api: ReplaysApi) {}

  clear() {
    this.looks += 1;
    this.file = null;
    [this.found, this.chosen, this.problem] = [null, null, null];
    [this.isLooking, this.isTooLarge] = [false, false];
    this.read = new Set();
  }

  /** Recognise the columns of a file with this label. */
  async look(file: File, label: string) {
    this.clear();
    [this.file, this.label] = [file, label];
    const found = await this.ask(ALL);
    if (!found) return;
    this.found = found;
    this.read = new Set(found.columns.filter((each) => each.treatment !== 'left_out').map(({ name }) => name));
  }

  /** Read a column, or leave it out. */
  async toggle(name: string) {
    const read = new Set(this.read);
    if (!read.delete(name)) read.add(name);
    this.read = read;
    if (read.size > 0) this.chosen = (await this.ask(this.choice)) ?? this.chosen;
  }

  private treated(column: RecognisedColumn): RecognisedColumn {
    return (this.read.has(column.name) && this.chosen?.columns.find(({ name }) => name === column.name)) || column;
  }

  /** Ask the service; null if it does not know, or was asked something else meanwhile. */
  private async ask(choice: ColumnChoice): Promise<RecognisedColumns | null> {
    const { file, label } = this;
    if (!file) return null;
    const look = ++this.looks;
    [this.isLooking, this.problem] = [true, null];
    try {
      const start = await cut(file);
      this.isTooLarge = start === null;
      const found = start && (await this.api.recogniseColumns(start, file.name, label, choice));
      return look === this.looks ? found : null;
    } catch (error) {
      if (look === this.looks) this.problem = wordRefusal(error);
      return null;
    } finally {
      if (look === this.looks) this.isLooking = false;
    }
  }
}
