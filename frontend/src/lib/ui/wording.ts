/* Formatted values for the pages, in the language of the person: pure functions. */

import { locale, t } from '../messages';

export const truncate = (text: string, chars: number) =>
  text.length > chars ? `${text.slice(0, chars).trimEnd()}…` : text;

export function milliseconds(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export const capitalize = (words: string) => words.slice(0, 1).toUpperCase() + words.slice(1);

/** Returns a format of the chosen language as the person writes it, which is made once. */
function formatOf<Format>(make: (locale: string) => Format): () => Format {
  const made = new Map<string, Format>();
  return () => {
    const format = made.get(locale) ?? make(locale);
    made.set(locale, format);
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
const shortDay = formatOf((locale) => new Intl.DateTimeFormat(locale, { month: 'short', day: 'numeric' }));
const fullDay = formatOf((locale) => new Intl.DateTimeFormat(locale, { dateStyle: 'long' }));

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
  return then.toDateString() === today.toDateString() ? time : `${shortDay().format(then)}, ${time}`;
}

const relative = formatOf((locale) => new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }));
const AGES = [
  ['year', 365 * 86_400],
  ['month', 30 * 86_400],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

/** How long ago an instant was: "3 hours ago", "yesterday"; less than a minute, or yet to come by a wrong clock: "just now". */
export function ago(at: string, now = new Date()): string {
  const age_s = (now.getTime() - new Date(at).getTime()) / 1000;
  const [unit, length] = AGES.find(([, seconds]) => age_s >= seconds) ?? [];
  if (unit === undefined) return t.ui.justNow;
  return relative().format(-Math.floor(age_s / length), unit);
}

const instants = formatOf((locale) => new Intl.DateTimeFormat(locale, { dateStyle: 'full', timeStyle: 'long' }));

/** An instant in full, with the time zone: "Saturday, November 21, 2026 at 2:03:11 PM GMT+1". */
export const instant = (at: string) => instants().format(new Date(at));

/** 5,300,000 -> "5.3 MB", 33 -> "33 B". */
export function bytes(size: number): string {
  if (size < 100) return `${size}\u00a0B`;
  const [unit, one] = size < 1e6 ? ['kB', 1e3] : size < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  const inUnit = size / one;
  return `${inUnit < 10 ? Number(inUnit.toFixed(1)) : Math.round(inUnit)}\u00a0${unit}`;
}

/** A day with its year, such as "21 November 2026". */
export const day = (at: string) => fullDay().format(new Date(at));

const hours = formatOf(
  (locale) => new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
);
const months = formatOf((locale) => new Intl.DateTimeFormat(locale, { month: 'short', year: 'numeric' }));

/** "14:00". */
export const hourOf = (at: string) => hours().format(new Date(at));

/** A time of today as "14:03"; another day is added. */
export function minute(at: string, today = new Date()): string {
  const isToday = new Date(at).toDateString() === today.toDateString();
  return isToday ? hourOf(at) : `${dayOf(at)}, ${hourOf(at)}`;
}

/** "3 May". */
export const dayOf = (at: string) => shortDay().format(new Date(at));

/** "May 2026". */
export const monthOf = (at: string) => months().format(new Date(at));
