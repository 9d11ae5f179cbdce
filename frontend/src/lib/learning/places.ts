/* Where events lie among the judged answers, as the charts count them: pure functions.

   offset of an event --numberAt--> number of the judged answer --judged points of the curve--> its time

   A number is exact, or it is not said: it comes from the curve where that is not thinned, and else from the service.
*/

import type { Curve, CurvePoint } from '../schema';
import { t } from '../messages';
import { count, dayOf, hourOf, minute } from '../ui/wording';

/** How many answers had been judged up to an offset; null: unknown. */
export type NumberAt = (offset: number) => number | null;

/** Where judged answers lie. points: of the curve, as `judgedPoints` numbers them. */
export interface Places {
  points: readonly CurvePoint[];
  numberAt: NumberAt;
}

export const NO_PLACES: Places = { points: [], numberAt: () => null };

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
    Object.fromEntries(Object.keys({ ...a, ...b }).map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)]));
  return {
    ...later,
    began: one.began ?? later.began,
    ended: later.ended ?? one.ended,
    counts: add(one.counts, later.counts),
    sums: add(one.sums, later.sums),
  };
}

/** How many answers had been judged up to an offset, where the curve says it exactly.

   elsewhere: asked for offsets within a stretch of the curve that holds judged answers and others. What comes after the
   newest counted event is unknown.
*/
export function numberAtOf(curve: Curve, elsewhere: NumberAt = () => null): NumberAt {
  const untils: number[] = [];
  for (const { counts } of curve.points) untils.push((untils.at(-1) ?? 0) + (counts['served'] ?? 0));
  return (offset) => {
    const place = curve.points.findIndex((point) => point.offset >= offset);
    if (place < 0) return offset <= curve.counted_until ? (untils.at(-1) ?? 0) : null;
    const [point, until] = [curve.points[place]!, untils[place]!];
    if (point.offset === offset) return until;
    const before = curve.points[place - 1] ?? { until: 0, offset: 0 };
    const judged = point.counts['served'] ?? 0;
    const ofOne = point.until - before.until === 1; // its only judgement is at its own offset
    if (judged === 0 || ofOne) return until - judged;
    const areAllJudged = judged === point.offset - before.offset;
    return areAllJudged ? until - (point.offset - offset) : elsewhere(offset);
  };
}

/** The number of the newest judged answer up to an offset; null: unknown, or there are none. */
export function answerAt({ points, numberAt }: Places, offset: number): number | null {
  return points.length === 0 ? null : numberAt(offset);
}

/** The number of the first judged answer from an offset on; null: unknown, or there are none. */
export function answerFrom(places: Places, offset: number): number | null {
  const before = answerAt(places, offset - 1);
  return before === null ? null : before + 1;
}

const ENOUGH = 100; // answers that a figure rests on

/** How good the newest answers up to an offset were: about 100, or all where there are fewer; null without any. */
export function resultBefore(points: readonly CurvePoint[], offset: number): { count: number; mean: number } | null {
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

/** "04:02 (judged answer 377)", of the newest judged answer up to an offset. at: the instant, if it is known better than by the curve. */
export const namePlace = (places: Places, offset: number, at: string | null = null): string =>
  nameAnswer(places, answerAt(places, offset), offset, at);

/** The same of the first judged answer from an offset on: where something begins. */
export const nameBegin = (places: Places, offset: number, at: string | null = null): string =>
  nameAnswer(places, answerFrom(places, offset), offset, at);

function nameAnswer({ points }: Places, answer: number | null, offset: number, at: string | null) {
  if (answer === null && at === null) return t.learning.verdict.event(count(offset));
  const known = at ?? (answer === null ? null : timeAt(points, answer));
  return t.learning.verdict.place(known === null ? '' : minute(known), answer === null ? '' : count(answer));
}
