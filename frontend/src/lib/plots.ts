/* What is plotted, and shown as a table: learning curves as numbers. */

import type { Curve, CurvePoint, Drift } from './schema';

const SHARE = 0.1; // of all outcomes, what one point of the curve is the mean of
const LEAST = 20; // outcomes

export interface Line {
  name: string;
  /** One for each place; null: nothing is known there. */
  values: (number | null)[];
}

export interface Mark {
  x: number;
  name: string;
}

export interface Chart {
  /** What is counted along the bottom. */
  along: string;
  places: number[];
  lines: Line[];
  marks: Mark[];
}

const NAMES: Record<string, string> = {
  served: 'what was answered',
  no_change: 'the last label again',
  majority: 'the most frequent label',
  mean: 'the mean so far',
};

/** Means over the newest tenth of the outcomes before each point: of what was served, and of the baselines. */
export function curveChart(curve: Curve, drift: Drift[] = []): Chart {
  const { points } = curve;
  const total = points.at(-1)?.until ?? 0;
  const width = Math.max(LEAST, Math.round(SHARE * total));
  const names = Object.keys(NAMES).filter((name) => points.some(({ counts }) => counts[name]));
  return {
    along: 'feedback',
    places: points.map(({ until }) => until),
    lines: names.map((name) => ({ name: NAMES[name]!, values: movingMeans(points, name, width) })),
    marks: drift.flatMap((alarm) => {
      const place = points.find(({ offset }) => offset >= alarm.offset);
      return place ? [{ x: place.until, name: alarm.what === 'class' ? `drift: ${alarm.label}` : `drift: ${alarm.what}` }] : [];
    }),
  };
}

/** At each point the mean over the points behind it that reach back `width` outcomes. */
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

/** The share of one's own drawings that were guessed right, after each. */
export function ownChart(outcomes: readonly boolean[]): Chart {
  let right = 0;
  const values = outcomes.map((was, place) => (right += Number(was)) / (place + 1));
  return {
    along: 'drawings',
    places: outcomes.map((_, place) => place + 1),
    lines: [{ name: 'guessed right so far', values }],
    marks: [],
  };
}
