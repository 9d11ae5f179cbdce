/* Estimates of routes as numbers for pictures: pure functions.

   cost, satisfaction -> axes -> places of points and whiskers
*/

import type { Estimate, ReportedTopic, RouterReport } from '../schema';

export interface Axis {
  low: number;
  high: number;
  isLog: boolean;
  ticks: number[];
}

/** A route alone, or all of them together, by what it costs and earns. */
export interface TradeoffPoint {
  name: string;
  cost: Estimate;
  satisfaction: Estimate;
  isRouter: boolean;
}

const LOG_FROM = 20; // costs that differ by more than this factor are no more told apart on an even scale
const STEPS = [1, 2, 2.5, 5, 10];
const MAX_TICKS = 5;

/** The points that have both figures. router: the name of the router. */
export function pointsOf({ alone, router }: Pick<RouterReport, 'alone' | 'router'>, name: string): TradeoffPoint[] {
  const given = [
    ...alone.map(({ route, cost_per_1k, satisfaction }) => ({ name: route, cost_per_1k, satisfaction })),
    { name, ...router, isRouter: true },
  ];
  return given.flatMap(({ name, cost_per_1k: cost, satisfaction, ...rest }) =>
    cost && satisfaction ? [{ name, cost, satisfaction, isRouter: 'isRouter' in rest }] : [],
  );
}

export function costAxis(points: TradeoffPoint[]): Axis {
  const values = points.map(({ cost }) => cost.value).filter((value) => value > 0);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (values.length > 0 && most / least > LOG_FROM) {
    const [low, high] = [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most))];
    const count = Math.round(Math.log10(high / low));
    const every = Math.ceil(count / MAX_TICKS);
    const ticks = Array.from({ length: count + 1 }, (_, place) => low * 10 ** place);
    return { low, high, isLog: true, ticks: ticks.filter((_, place) => place % every === 0) };
  }
  return evenAxis(Math.max(...points.map(({ cost }) => Math.min(cost.high, 2 * most)), 0) || 1);
}

/** An axis from zero, whose ticks are round numbers. */
function evenAxis(high: number): Axis {
  const rough = high / MAX_TICKS;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * STEPS.find((each) => unit * each >= rough * 0.999)!;
  const count = Math.ceil(high / step - 1e-9);
  return {
    low: 0,
    high: count * step,
    isLog: false,
    ticks: Array.from({ length: count + 1 }, (_, place) => place * step),
  };
}

const tenth = (value: number) => Math.round(10 * value) / 10;

/** Satisfaction, by tenths around what is shown. */
export function satisfactionAxis(points: TradeoffPoint[]): Axis {
  const low = Math.max(0, Math.floor(10 * Math.min(...points.map(({ satisfaction }) => satisfaction.low), 1)) / 10);
  const high = Math.min(1, Math.ceil(10 * Math.max(...points.map(({ satisfaction }) => satisfaction.high), 0)) / 10);
  const tenths = Math.max(1, Math.round(10 * (high - low)));
  const every = tenths > MAX_TICKS ? 2 : 1;
  const ticks = Array.from({ length: tenths + 1 }, (_, place) => tenth(low + place / 10));
  return {
    low,
    high: tenth(low + tenths / 10),
    isLog: false,
    ticks: ticks.filter((_, place) => (tenths - place) % every === 0),
  };
}

/** Where a value lies on an axis, from 0 to 1. */
export function placeOn({ low, high, isLog }: Axis, value: number): number {
  const share = isLog
    ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
    : (value - low) / Math.max(high - low, 1e-12);
  return Math.min(Math.max(share, 0), 1);
}

/** Move labels apart, in px from the top: each at least `gap` from the one above it. */
export function spreadLabels(wanted: number[], gap: number): number[] {
  const order = wanted.map((at, place) => ({ at, place })).sort((one, two) => one.at - two.at);
  const found = [...wanted];
  let last = -Infinity;
  for (const { at, place } of order) found[place] = last = Math.max(at, last + gap);
  return found;
}

/** Whether one route is better than all others at a topic, beyond chance. */
export function isDecided({ routes: [best, ...others] }: Pick<ReportedTopic, 'routes'>): boolean {
  return best !== undefined && others.every(({ satisfaction }) => satisfaction.high < best.satisfaction.low);
}

/** What is known of the money saved: it was saved, lost, or cannot be said yet. */
export function outcomeOf({ low, high }: Estimate): 'saved' | 'lost' | 'open' {
  if (low > 0) return 'saved';
  return high < 0 ? 'lost' : 'open';
}

export const SLIDER_STEPS = 100;

/** The budgets that the slider offers, from a half of what is cheapest to twice what is most expensive. */
export function budgetRange(report: Pick<RouterReport, 'alone' | 'router' | 'budget'>): { low: number; high: number } {
  const costs = [...report.alone, report.router].map(({ cost_per_1k }) => cost_per_1k?.value ?? 0);
  const known = [...costs, report.budget.max_cost_per_1k ?? 0].filter((cost) => cost > 0);
  if (known.length === 0) return { low: 0.01, high: 100 };
  return { low: Math.min(...known) / 2, high: 2 * Math.max(...known) };
}

/** The budget at a step of the slider, with two significant digits. */
export const budgetAt = ({ low, high }: { low: number; high: number }, step: number) =>
  Number((low * (high / low) ** (step / SLIDER_STEPS)).toPrecision(2));

export const stepOf = ({ low, high }: { low: number; high: number }, budget: number) =>
  Math.round(SLIDER_STEPS * placeOn({ low, high, isLog: true, ticks: [] }, budget));
