/* Where events lie among the judged answers, as the charts count them: pure functions.

   offset of an event --judged points of the curve--> number of the judged answer --> its time
*/

import type { CurvePoint } from '../schema';
import { t } from '../messages';
import { count, dayOf, hourOf, minute } from '../ui/wording';

const LONG_MS = 36 * 3_600_000; // from which days tell more than hours

/** The points of a curve with only the served answers numbered: an example that was taught judges no answer. */
export function judgedPoints(points: readonly CurvePoint[]): CurvePoint[] {
  const found: CurvePoint[] = [];
  let waiting: CurvePoint | null = null;
  let until = 0;
  for (const point of points) {
    const whole: CurvePoint = waiting ? merge(waiting, point) : point;
    const judged = point.counts['served'] ?? 0;
    waiting = judged === 0 ? whole : null;
    if (judged > 0) found.push({ ...whole, until: (until += judged) });
  }
  const last = found.pop();
  if (!last) return [];
  return [...found, waiting ? { ...merge(last, waiting), until } : last];
}

function merge(one: CurvePoint, later: CurvePoint): CurvePoint {
  const add = (a: Record<string, number>, b: Record<string, number>) =>
    Object.fromEntries(
      Object.keys({ ...a, ...b }).map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)]),
    );
  return {
    ...later,
    began: one.began ?? later.began,
    ended: later.ended ?? one.ended,
    counts: add(one.counts, later.counts),
    sums: add(one.sums, later.sums),
  };
}

/** The number of the newest judged answer up to an offset; between two points of the curve it is estimated. null: unknown. */
export function answerAt(points: readonly CurvePoint[], offset: number): number | null {
  const last = points.at(-1);
  if (!last) return null;
  const place = points.findIndex((point) => point.offset >= offset);
  if (place < 0) return last.until;
  const [before, after] = [points[place - 1] ?? { until: 0, offset: 0 }, points[place]!];
  const share = (offset - before.offset) / Math.max(1, after.offset - before.offset);
  return Math.round(before.until + Math.max(0, share) * (after.until - before.until));
}

const ENOUGH = 100; // answers that a figure rests on

/** How good the newest answers up to an offset were: about 100, or all where there are fewer; null without any. */
export function resultBefore(
  points: readonly CurvePoint[],
  offset: number,
): { count: number; mean: number } | null {
  let [judged, sum] = [0, 0];
  for (const point of points.filter((each) => each.offset <= offset).reverse()) {
    if (judged >= ENOUGH) break;
    judged += point.counts['served'] ?? 0;
    sum += point.sums['served'] ?? 0;
  }
  return judged === 0 ? null : { count: judged, mean: sum / judged };
}

/** When an answer was judged, by its number; null: unknown. */
export function timeAt(points: readonly CurvePoint[], answer: number): string | null {
  return points.find(({ until }) => until >= answer)?.ended ?? null;
}

/** The time of a judged answer in a few characters: its hour, or in a long curve its day; "" if it is unknown. */
export function shortTimeAt(points: readonly CurvePoint[], answer: number): string {
  const at = timeAt(points, answer);
  if (at === null) return '';
  const [first, last] = [points[0]?.began, points.at(-1)?.ended];
  const isLong = first && last && Date.parse(last) - Date.parse(first) > LONG_MS;
  return isLong ? dayOf(at) : hourOf(at);
}

/** "04:02 (judged answer 377)". at: the instant, if it is known better than by the curve. */
export function namePlace(
  points: readonly CurvePoint[],
  offset: number,
  at: string | null = null,
): string {
  const answer = answerAt(points, offset);
  if (answer === null && at === null) return t.learning.verdict.event(count(offset));
  const known = at ?? (answer === null ? null : timeAt(points, answer));
  return t.learning.verdict.place(
    known === null ? '' : minute(known),
    answer === null ? '' : count(answer),
  );
}
