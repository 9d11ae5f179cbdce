/* Sentences and formatted values for the page: pure functions from states to texts. */

import { language } from '../messages';

export interface FeedbackState {
  failed: string | null;
  saved: boolean;
  held: boolean;
  refused: string | null;
  learned: { version: string; freshness_ms: number | null } | null;
  undo: 'none' | 'requested' | 'saved' | 'learned';
  unlearnedVersion: string | null;
  recheckResult: RecheckResult | null;
}

/** The answers before and after; null for none. Without `before`, only the new answer is shown. */
export interface RecheckResult {
  before?: string | null | undefined;
  after: string | null;
}

const HELD = 'Thank you. It will be learned once it was reviewed.';
const BEFORE_CHARS = 60; // the full text is shown above

const learnedIn = ({ version, freshness_ms }: NonNullable<FeedbackState['learned']>) =>
  freshness_ms === null
    ? `learned in version ${version}`
    : `learned in version ${version}, ${milliseconds(freshness_ms)} later`;

export function describeRecheck({ before, after }: RecheckResult): string {
  if (before === undefined)
    return `asked again now: ${after === null ? 'no answer' : `“${after}”`}`;
  const now = after === null ? 'no reply' : `“${after}”`;
  if (before === after) return `asked again now: still ${now}`;
  return `asked again now: before ${before === null ? 'no reply' : `“${truncate(before, BEFORE_CHARS)}”`}, now ${now}`;
}

export const truncate = (text: string, chars: number) =>
  text.length > chars ? `${text.slice(0, chars).trimEnd()}…` : text;

export function milliseconds(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function describeFeedback(state: FeedbackState): string[] {
  if (state.failed !== null) return [`not saved: ${state.failed}`];
  if (state.undo !== 'none') return describeUndo(state);
  if (!state.saved) return ['saving…'];
  if (state.held) return [HELD];
  if (state.refused !== null) return ['saved', `not learned: ${state.refused}`];
  if (!state.learned) return ['saved'];
  return [
    'saved',
    learnedIn(state.learned),
    ...(state.recheckResult ? [describeRecheck(state.recheckResult)] : []),
  ];
}

function describeUndo({ undo, unlearnedVersion, recheckResult }: FeedbackState): string[] {
  if (undo === 'requested') return ['taking it back…'];
  if (undo === 'saved') return ['taken back'];
  return [
    'taken back',
    `un-learned in version ${unlearnedVersion}`,
    ...(recheckResult ? [describeRecheck(recheckResult)] : []),
  ];
}

interface RetirementState {
  wanted: 'retire' | 'restore' | null;
  saved: boolean;
  sinceVersion: string | null;
  recheckResult: RecheckResult | null;
}

export function describeRetirement({
  wanted,
  saved,
  sinceVersion,
  recheckResult,
}: RetirementState): string[] {
  if (wanted === null) return [];
  const retires = wanted === 'retire';
  if (!saved) return [retires ? 'retiring this reply…' : 'restoring this reply…'];
  const done = retires ? 'reply retired' : 'reply restored';
  if (sinceVersion === null) return [done];
  const seen = retires
    ? `no longer given since version ${sinceVersion}`
    : `given again since version ${sinceVersion}`;
  return [done, seen, ...(recheckResult ? [describeRecheck(recheckResult)] : [])];
}

/** The state of a change. done, learned: texts for a saved and for a learned change. */
interface ChangeState {
  done: string;
  learned: string;
  saved: boolean;
  failed: string | null;
  sinceVersion: string | null;
}

export function describeChange({
  done,
  learned,
  saved,
  failed,
  sinceVersion,
}: ChangeState): string[] {
  if (failed !== null) return [`not saved: ${failed}`];
  if (!saved) return ['saving…'];
  return sinceVersion === null ? [done] : [done, `${learned} version ${sinceVersion}`];
}

const ID_CHARS = 6; // enough to tell visitors apart

/** "visitor:1f2e3d4c" -> "visitor 1f2e3d", "key:website" -> "key website". */
export function describeCaller(id: string): string {
  const [, kind, name] = /^(visitor|key|user):(.+)$/s.exec(id) ?? [];
  if (kind === undefined || name === undefined) return id;
  return `${kind} ${kind === 'visitor' ? name.slice(0, ID_CHARS) : name}`;
}

/** "1 question", "2 questions". */
export const pluralize = (number: number, one: string, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

export const messageOf = (error: unknown) =>
  error instanceof Error ? error.message : String(error);

/** Returns a format of the chosen language, which is made once. */
function formatOf<Format>(make: (locale: string) => Format): () => Format {
  const made = new Map<string, Format>();
  return () => {
    const format = made.get(language) ?? make(language);
    made.set(language, format);
    return format;
  };
}

const numbers = formatOf((locale) => new Intl.NumberFormat(locale, { maximumFractionDigits: 0 }));
const clock = formatOf(
  (locale) =>
    new Intl.DateTimeFormat(locale, {
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hour12: false,
    }),
);
const day = formatOf(
  (locale) => new Intl.DateTimeFormat(locale, { month: 'short', day: 'numeric' }),
);

/** 12345 -> "12,345". */
export const count = (number: number) => numbers().format(number);

/** A number with few digits: 12,345; 0.973; "–" for none. */
export function amount(figure: number | undefined): string {
  if (figure === undefined) return '–';
  return Number.isInteger(figure) ? count(figure) : figure.toPrecision(3);
}

/** 0.931 -> "93 %". */
export const percent = (share: number) => `${Math.round(100 * share)}\u00a0%`;

/** An error with three significant digits. */
export const figure = (value: number) => String(Number(value.toPrecision(3)));

export const signed = (figure: number) => `${figure < 0 ? '−' : '+'}${Math.abs(figure).toFixed(2)}`;

/** A time of today as "14:03:11"; another day is added. */
export function moment(at: string, today = new Date()): string {
  const then = new Date(at);
  const time = clock().format(then);
  return then.toDateString() === today.toDateString() ? time : `${day().format(then)}, ${time}`;
}

/** 5,300,000 -> "5.3 MB". */
export function bytes(size: number): string {
  const [unit, one] = size < 1e6 ? ['kB', 1e3] : size < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  const inUnit = size / one;
  return `${inUnit < 10 ? Number(inUnit.toFixed(1)) : Math.round(inUnit)}\u00a0${unit}`;
}
