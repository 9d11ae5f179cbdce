/* Where events lie among the ratings, as the charts count them: pure functions.

   offset of an event --points of the curve--> number of the rating --> its time
*/

import type { CurvePoint } from '../schema';
import { t } from '../messages';
import { count, dayOf, hourOf, minute } from '../ui/wording';

const LONG_MS = 36 * 3_600_000; // from which days tell more than hours

/** The number of the newest rating up to an offset; between two points of the curve it is estimated. null: unknown. */
export function ratingAt(points: readonly CurvePoint[], offset: number): number | null {
  const last = points.at(-1);
  if (!last) return null;
  const place = points.findIndex((point) => point.offset >= offset);
  if (place < 0) return last.until;
  const [before, after] = [points[place - 1] ?? { until: 0, offset: 0 }, points[place]!];
  const share = (offset - before.offset) / Math.max(1, after.offset - before.offset);
  return Math.round(before.until + Math.max(0, share) * (after.until - before.until));
}

/** When a rating was given, by its number; null: unknown. */
export function timeAt(points: readonly CurvePoint[], rating: number): string | null {
  return points.find(({ until }) => until >= rating)?.ended ?? null;
}

/** The time of a rating in a few characters: its hour, or in a long curve its day; "" if it is unknown. */
export function shortTimeAt(points: readonly CurvePoint[], rating: number): string {
  const at = timeAt(points, rating);
  if (at === null) return '';
  const [first, last] = [points[0]?.began, points.at(-1)?.ended];
  const isLong = first && last && Date.parse(last) - Date.parse(first) > LONG_MS;
  return isLong ? dayOf(at) : hourOf(at);
}

/** "04:02 (rating 377)". at: the instant, if it is known better than by the curve. */
export function namePlace(
  points: readonly CurvePoint[],
  offset: number,
  at: string | null = null,
): string {
  const rating = ratingAt(points, offset);
  if (rating === null && at === null) return t.learning.verdict.event(count(offset));
  const known = at ?? (rating === null ? null : timeAt(points, rating));
  return t.learning.verdict.place(
    known === null ? '' : minute(known),
    rating === null ? '' : count(rating),
  );
}
