/* Learning curves as numbers, for plots and tables. */

import { t } from '../messages';
import type { Curve, CurvePoint, DriftChange, Version } from '../schema';
import { answerAt, answerFrom, judgedPoints, numberAtOf, shortTimeAt, type Places } from '../learning/places';
import { count } from './wording';

const WINDOW_RATIO = 0.1; // share of all outcomes averaged in one point
const MIN_WINDOW = 20; // outcomes
const MAX_TICKS = 24; // of versions, so that they stand apart on a phone

export interface Line {
  name: string;
  /** One for each x; null if unknown. */
  values: (number | null)[];
}

export interface Mark {
  x: number;
  name: string;
  /** What marks of this kind are called in the legend; "alarm" by default. */
  kind?: string;
  /** Whether it is drawn as a small tick at the axis instead of a line. */
  isTick?: boolean;
}

export interface Chart {
  /** The unit of the x axis. */
  xLabel: string;
  places: number[];
  lines: Line[];
  marks: Mark[];
  /** Names a place of the x axis, where places are no numbers of something; "" for none. */
  showX?: (place: number) => string;
  /** Names a place of the x axis, in two lines. */
  showTick?: (place: number) => string;
  /** Names the answers that the values at a place rest on. */
  showSpan?: (place: number) => string;
  /** What the values are, before their names. */
  lead?: string;
  /** Whether the legend has no figures, because others beside the chart rest on other answers. */
  namesOnly?: boolean;
  /** Whether the first line is drawn as bars. */
  bars?: boolean;
  /** A range around the first line, which is drawn as an area. */
  band?: { name: string; low: (number | null)[]; high: (number | null)[] };
}

/** A mark by the offset of its event. kind: as in `Mark`; by default its name. isBegin: at the first answer from there on. */
export interface EventMark {
  offset: number;
  name: string;
  kind?: string;
  isBegin?: boolean;
}

/** Moving means of the served answers and of the naive guessers, over a tenth of all outcomes.

   changes: where alarms were raised. marks: others, by the offset of their event. Only served answers count as outcomes.
   numberAt: where an event lies among them. A mark is left out as long as that is not known.
*/
export function curveChart(
  curve: Curve,
  changes: DriftChange[] = [],
  marks: EventMark[] = [],
  numberAt = numberAtOf(curve),
): Chart {
  const points = judgedPoints(curve.points);
  const places = { points, numberAt };
  const total = points.at(-1)?.until ?? 0;
  const width = Math.max(MIN_WINDOW, Math.round(WINDOW_RATIO * total));
  const words = t.learning.chart;
  const names = Object.entries(words.names).filter(([name]) => points.some(({ counts }) => counts[name]));
  return {
    xLabel: words.xLabel,
    places: points.map(({ until }) => until),
    lines: names.map(([id, name]) => ({ name, values: movingMeans(points, id, width) })),
    marks: [
      ...changes.flatMap(({ offset, alarms }) => {
        const x = answerAt(places, offset);
        return x === null ? [] : [{ x, name: words.alarmOf(whatChanged(alarms[0]!)) }];
      }),
      ...marks.flatMap(({ offset, name, kind = name, isBegin }) => {
        const x = (isBegin ? answerFrom : answerAt)(places, offset);
        return x === null ? [] : [{ x, name, kind }];
      }),
    ],
    lead: words.moving(count(Math.min(width, total))),
    showTick: (place) => `${count(place)}\n${shortTimeAt(points, place)}`,
    showSpan: (place) => words.span(count(Math.max(1, place - width + 1)), count(place), shortTimeAt(points, place)),
  };
}

/** Ticks where versions went live, at most MAX_TICKS of them: near ones are one. versions: newest first. */
export function versionTicks(places: Places, versions: readonly Version[]): Mark[] {
  const { points } = places;
  const total = points.at(-1)?.until ?? 0;
  const words = t.learning.chart;
  const groups = new Map<number, { x: number; first: string; last: string }>();
  for (const { version, learned_until } of [...versions].reverse()) {
    const x = answerAt(places, learned_until);
    if (x === null || x < points[0]!.until) continue;
    const group = Math.ceil((MAX_TICKS * x) / total);
    groups.set(group, { x, first: groups.get(group)?.first ?? version, last: version });
  }
  return [...groups.values()].map(({ x, first, last }) => ({
    x,
    name: words.wentLive(first, last),
    kind: words.versionTick,
    isTick: true,
  }));
}

/** A mark beside the values of a place; with its own number if it lies before that place. */
export const nameMark = ({ x, name, isTick }: Mark, place: number): string =>
  x === place || isTick ? name : `${name} (${count(x)})`;

/** What an alarm is about, in a few words. */
export function whatChanged({ what, label }: DriftChange['alarms'][number]): string {
  const { kinds } = t.learning.alarms;
  return what === 'class' ? kinds.class(label ?? '') : kinds[what];
}

/** The mean at each point over the last `width` outcomes. */
export function movingMeans(points: CurvePoint[], name: string, width: number): (number | null)[] {
  let [from, count, sum] = [0, 0, 0];
  return points.map((point) => {
    count += point.counts[name] ?? 0;
    sum += point.sums[name] ?? 0;
    while (points[from]!.until <= point.until - width) {
      count -= points[from]!.counts[name] ?? 0;
      sum -= points[from]!.sums[name] ?? 0;
      from += 1;
    }
    return count > 0 ? sum / count : null;
  });
}

/** The ratio of correct guesses after each drawing of this session. */
export function ownAccuracyChart(outcomes: readonly boolean[]): Chart {
  let right = 0;
  const values = outcomes.map((isRight, place) => (right += Number(isRight)) / (place + 1));
  return {
    xLabel: 'drawings',
    places: outcomes.map((_, place) => place + 1),
    lines: [{ name: 'guessed right so far', values }],
    marks: [],
  };
}
