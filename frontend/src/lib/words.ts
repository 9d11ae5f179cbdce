/* How a feedback's life is told, step by step. Facts come in, sentences go out. */

export interface Told {
  failed: string | null;
  saved: boolean;
  refused: string | null;
  learned: { version: string; freshness_ms: number | null } | null;
  undo: 'none' | 'asked' | 'saved' | 'learned';
  unlearnedIn: string | null;
  again: Again | null;
}

/** What would be answered now, and what was before; null: nothing; no before: it is not to be told. */
export interface Again {
  before?: string | null | undefined;
  says: string | null;
}

const BEFORE_CHARS = 60; // it stands above in full

const learnedIn = ({ version, freshness_ms }: NonNullable<Told['learned']>) =>
  freshness_ms === null
    ? `learned in version ${version}`
    : `learned in version ${version}, ${milliseconds(freshness_ms)} later`;

export function askedAgain({ before, says }: Again): string {
  if (before === undefined)
    return says === null ? 'asked again, I would say that I don\'t know yet' : `asked again, I would say: “${says}”`;
  const now = says === null ? 'no reply' : `“${says}”`;
  if (before === says) return `asked again now: still ${now}`;
  return `asked again now: before ${before === null ? 'no reply' : `“${cut(before, BEFORE_CHARS)}”`}, now ${now}`;
}

export const cut = (text: string, chars: number) => (text.length > chars ? `${text.slice(0, chars).trimEnd()}…` : text);

export function milliseconds(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function tell(told: Told): string[] {
  if (told.failed !== null) return [`not saved: ${told.failed}`];
  if (told.undo !== 'none') return tellUndo(told);
  if (!told.saved) return ['saving…'];
  if (told.refused !== null) return ['saved', `not learned: ${told.refused}`];
  if (!told.learned) return ['saved'];
  return ['saved', learnedIn(told.learned), ...(told.again ? [askedAgain(told.again)] : [])];
}

function tellUndo({ undo, unlearnedIn, again }: Told): string[] {
  if (undo === 'asked') return ['taking it back…'];
  if (undo === 'saved') return ['taken back'];
  return ['taken back', `un-learned in version ${unlearnedIn}`, ...(again ? [askedAgain(again)] : [])];
}

interface Retired {
  wanted: 'forget' | 'restore' | null;
  saved: boolean;
  since: string | null;
  again: Again | null;
}

export function tellRetirement({ wanted, saved, since, again }: Retired): string[] {
  if (wanted === null) return [];
  const forgets = wanted === 'forget';
  if (!saved) return [forgets ? 'forgetting this reply…' : 'bringing this reply back…'];
  const done = forgets ? 'this reply is forgotten' : 'this reply is back';
  if (since === null) return [done];
  const seen = forgets ? `not given any more since version ${since}` : `given again since version ${since}`;
  return [done, seen, ...(again ? [askedAgain(again)] : [])];
}

/** What became of a change of the repertoire. done: what it is called once it is saved; learned: and once it is learned. */
interface Changed {
  done: string;
  learned: string;
  saved: boolean;
  failed: string | null;
  since: string | null;
}

export function tellChange({ done, learned, saved, failed, since }: Changed): string[] {
  if (failed !== null) return [`not saved: ${failed}`];
  if (!saved) return ['saving…'];
  return since === null ? [done] : [done, `${learned} version ${since}`];
}

/** "1 question", "2 questions". */
export const counted = (number: number, one: string, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

const numbers = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const day = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' });

/** 12345 -> "12,345". */
export const count = (number: number) => numbers.format(number);

/** A figure of whatever size, short: 12,345; 0.9731; "–" for none. */
export function amount(figure: number | undefined): string {
  if (figure === undefined) return '–';
  return Number.isInteger(figure) ? count(figure) : figure.toPrecision(3);
}

/** 0.931 -> "93 %". */
export const percent = (share: number) => `${Math.round(100 * share)}\u00a0%`;

/** Of a number's errors: as many digits as tell them apart. */
export const figure = (value: number) => String(Number(value.toPrecision(3)));

export const signed = (figure: number) => `${figure < 0 ? '−' : '+'}${Math.abs(figure).toFixed(2)}`;

/** An instant, as short as it is clear today: "14:03:11", or with its day. */
export function moment(at: string, today = new Date()): string {
  const then = new Date(at);
  const time = clock.format(then);
  return then.toDateString() === today.toDateString() ? time : `${day.format(then)}, ${time}`;
}

/** 5,300,000 -> "5.3 MB". */
export function bytes(size: number): string {
  const [unit, one] = size < 1e6 ? ['kB', 1e3] : size < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  const inUnit = size / one;
  return `${inUnit < 10 ? Number(inUnit.toFixed(1)) : Math.round(inUnit)}\u00a0${unit}`;
}
