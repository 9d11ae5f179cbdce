/* Learning curves as numbers, for plots and tables. */

import type { Curve, CurvePoint, Drift } from '../schema';

const WINDOW_RATIO = 0.1; // share of all outcomes averaged in one point
const MIN_WINDOW = 20; // outcomes

export interface Line {
  name: string;
  /** One for each x; null if unknown. */
  values: (number | null)[];
}

export interface Mark {
  x: number;
  name: string;
}

export interface Chart {
  /** The unit of the x axis. */
  xLabel: string;
  places: number[];
  lines: Line[];
  marks: Mark[];
}

const NAMES: Record<string, string> = {
  served: 'model',
  no_change: 'last outcome',
  majority: 'most frequent class',
  mean: 'running mean',
};

/** Moving means of the served answers and of the baselines, over a tenth of all outcomes. */
export function curveChart(curve: Curve, drift: Drift[] = []): Chart {
  const { points } = curve;
  const total = points.at(-1)?.until ?? 0;
  const width = Math.max(MIN_WINDOW, Math.round(WINDOW_RATIO * total));
  const names = Object.keys(NAMES).filter((name) => points.some(({ counts }) => counts[name]));
  return {
    xLabel: 'feedback',
    places: points.map(({ until }) => until),
    lines: names.map((name) => ({ name: NAMES[name]!, values: movingMeans(points, name, width) })),
    marks: drift.flatMap((alarm) => {
      const place = points.find(({ offset }) => offset >= alarm.offset);
      return place
        ? [
            {
              x: place.until,
              name: alarm.what === 'class' ? `drift: ${alarm.label}` : `drift: ${alarm.what}`,
            },
          ]
        : [];
    }),
  };
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
