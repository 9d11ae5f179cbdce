/* Recognises a log by its first kilobytes, in the browser, before it is sent.

   file --first 64 kB, decompressed--> text --by its name and content--> format, columns, first rows, number of rows
*/

const READ_BYTES = 65_536;
const MAX_ROWS = 5;
const DETECTED_ROWS = 20; // that show the delimiter
const MAX_CELL_CHARS = 60;
const DELIMITERS = [',', ';', '\t', '|'];
const LABEL_NAMES = /^(label|labels|class|classes|target|category|intent|outcome|answer|species)$/i;

export type LogFormat = 'CSV' | 'Parquet' | 'JSON' | 'service' | 'Vowpal Wabbit' | 'unknown';

export interface Preview {
  format: LogFormat;
  /** Whether it is a table, whose label column has to be named. */
  isTable: boolean;
  columns: string[];
  /** The first rows. */
  rows: PreviewRow[];
  /** The column to predict, most likely; "" if that is not known, or not needed. */
  label: string;
  /** The number of rows; null if not known. isExact: whether it was counted rather than estimated. */
  rowCount: number | null;
  isExact: boolean;
  /** Of the log of a service. */
  model: string;
  kind: string;
}

/** Why a replay refuses a row. */
export type RowProblem = 'no_label' | 'too_many_cells' | 'too_few_cells' | 'open_quote' | 'not_json' | 'no_example';

/** cells: one for each column. problem: whatever the label is; see `findProblem`. */
export interface PreviewRow {
  cells: string[];
  problem: RowProblem | null;
}

const NOTHING: Preview = {
  format: 'unknown',
  isTable: false,
  columns: [],
  rows: [],
  label: '',
  rowCount: null,
  isExact: false,
  model: '',
  kind: '',
};

/** The beginning of a file, decompressed. isWhole: whether it is all of it. */
interface Start {
  text: string;
  isWhole: boolean;
}

export async function previewLog(file: File): Promise<Preview> {
  const name = file.name.toLowerCase().replace(/\.(gz|zst)$/, '');
  const isCompressed = name.length < file.name.length;
  if (name.endsWith('.parquet')) return { ...NOTHING, format: 'Parquet', isTable: true };
  const isCsv = /\.(csv|tsv)$/.test(name);
  if (/\.zst$/i.test(file.name)) return { ...NOTHING, format: isCsv ? 'CSV' : 'unknown', isTable: isCsv };
  const start = await readStart(file, isCompressed);
  const size = isCompressed ? null : file.size;
  if (!isCsv) return { ...previewLines(name, start), ...countRows(start, size, 0) };
  const [skipped, delimiter] = findDelimiter(linesOf(start));
  return { ...previewTable(start, skipped, delimiter), ...countRows(start, size, skipped + 1) };
}

async function readStart(file: File, isCompressed: boolean): Promise<Start> {
  const beginning: ReadableStream<Uint8Array> = file.slice(0, READ_BYTES).stream();
  const stream = isCompressed
    ? beginning.pipeThrough(new DecompressionStream('gzip') as ReadableWritablePair<Uint8Array, Uint8Array>)
    : beginning;
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let [text, ended] = ['', false];
  try {
    while (text.length < READ_BYTES && !ended) {
      const { done, value } = await reader.read();
      ended = done;
      if (!done) text += decoder.decode(value, { stream: true });
    }
    await reader.cancel();
  } catch {
    ended = false; // a compressed stream that was cut ends with an error, which is expected
  }
  return { text: text.replace(/^\uFEFF/, ''), isWhole: ended && file.size <= READ_BYTES };
}

/** The complete lines of the beginning. */
function linesOf({ text, isWhole }: Start): string[] {
  const lines = text.split(/\r?\n/);
  if (!isWhole) lines.pop();
  return lines.filter((line) => line.trim() !== '');
}

function countRows(start: Start, size: number | null, headers: number) {
  const lines = linesOf(start).length;
  if (start.isWhole) return { rowCount: Math.max(0, lines - headers), isExact: true };
  if (size === null || lines < 2) return { rowCount: null, isExact: false };
  const bytes = new TextEncoder().encode(start.text).length;
  return { rowCount: Math.round((size / bytes) * lines), isExact: false };
}

function previewTable(start: Start, skipped: number, delimiter: string): Preview {
  const records = recordsOf(start, delimiter).slice(skipped, skipped + MAX_ROWS + 1);
  const [header, ...rows] = records;
  const columns = header === undefined ? [] : parseCells(header, delimiter);
  const named = columns.findLast((column) => LABEL_NAMES.test(column));
  const label = named ?? columns.at(-1) ?? '';
  const previewed = rows.map((row) => previewRow(row, columns.length, delimiter));
  return { ...NOTHING, format: 'CSV', isTable: true, columns, label, rows: previewed };
}

/** How many lines stand before the header (`sep=;`), and the delimiter, which cuts the first rows alike. */
function findDelimiter(lines: string[]): [number, string] {
  const named = /^"?sep=(.)"?$/.exec(lines[0]?.trim() ?? '')?.[1];
  if (named !== undefined) return [1, named];
  const shown = lines.slice(0, DETECTED_ROWS);
  const rated = DELIMITERS.map((delimiter): [string, number, number] => {
    const widths = shown.map((line) => parseCells(line, delimiter).length);
    const width = widths[0] ?? 1;
    const alike = widths.filter((each) => each === width).length / widths.length;
    return [delimiter, width > 1 ? alike : 0, width];
  });
  rated.sort((one, other) => other[1] - one[1] || other[2] - one[2]);
  return [0, rated[0]?.[0] ?? ','];
}

/** The complete records of the beginning of a table; a quoted cell may have line breaks in it. */
function recordsOf(start: Start, delimiter: string): string[] {
  const records: string[] = [];
  let [open, isOpen] = [[] as string[], false];
  for (const line of linesOf(start)) {
    open.push(line);
    isOpen = endsInQuotes(line, isOpen, delimiter);
    if (isOpen) continue;
    records.push(open.join('\n'));
    open = [];
  }
  return isOpen && start.isWhole ? [...records, open.join('\n')] : records;
}

/** Whether a quoted cell goes on after a line. A quote within a cell that does not begin with one is text. */
function endsInQuotes(line: string, isQuoted: boolean, delimiter: string): boolean {
  let isStart = true;
  const doubled = new RegExp(`(?<=[^${escape(delimiter)}])""`, 'g');
  for (const character of line.replaceAll(doubled, '')) {
    if (character === '"' && (isQuoted || isStart)) isQuoted = !isQuoted;
    isStart = character === delimiter;
  }
  return isQuoted;
}

function previewRow(record: string, columns: number, delimiter: string): PreviewRow {
  const cells = parseCells(record, delimiter);
  const problem = endsInQuotes(record, false, delimiter) ? 'open_quote' : compareWidth(cells.length, columns);
  return { cells: cells.map(shorten), problem };
}

function compareWidth(cells: number, columns: number): RowProblem | null {
  if (cells === columns) return null;
  return cells > columns ? 'too_many_cells' : 'too_few_cells';
}

/** Why a row would be refused; null if it would not. label: the column to predict. */
export function findProblem(preview: Preview, row: PreviewRow, label: string): RowProblem | null {
  if (row.problem !== null || !preview.isTable) return row.problem;
  return row.cells[preview.columns.indexOf(label)] ? null : 'no_label';
}

function previewExample(line: string): PreviewRow {
  const value = parseObject(line);
  if (value === null) return { cells: [shorten(line), ''], problem: 'not_json' };
  const cells = [shorten(show(value['input'])), shorten(show(value['label']))];
  if (!('input' in value && 'label' in value)) return { cells, problem: 'no_example' };
  return { cells, problem: [null, ''].includes(value['label'] as null) ? 'no_label' : null };
}

function previewLines(name: string, start: Start): Preview {
  const lines = linesOf(start);
  const first = parseObject(lines[0] ?? '');
  if (first && typeof first['format'] === 'string' && first['format'].startsWith('online-log/'))
    return {
      ...NOTHING,
      format: 'service',
      model: show(first['model']),
      kind: show(first['kind']),
    };
  if (first && 'input' in first) {
    const rows = lines.slice(0, MAX_ROWS).map(previewExample);
    return { ...NOTHING, format: 'JSON', columns: ['input', 'label'], rows, label: 'label' };
  }
  if (/\.vw$/.test(name) || /^[^{]*\|/.test(lines[0] ?? '')) return { ...NOTHING, format: 'Vowpal Wabbit' };
  return NOTHING;
}

function parseObject(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

const show = (value: unknown) => (typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value));

const shorten = (text: string) => (text.length > MAX_CELL_CHARS ? `${text.slice(0, MAX_CELL_CHARS - 1)}…` : text);

const escape = (delimiter: string) => delimiter.replace(/[\\|^\]-]/g, '\\$&');

/** `a,"b, c"` -> a / b, c */
export function parseCells(line: string, delimiter = ','): string[] {
  const ends = escape(delimiter);
  const cell = new RegExp(`(?:^|${ends})(?:\\s*"((?:[^"]|"")*)"|([^${ends}]*))`, 'g');
  return [...line.matchAll(cell)].map(([, quoted, plain]) => (quoted?.replaceAll('""', '"') ?? plain ?? '').trim());
}
