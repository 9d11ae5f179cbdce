import { expect, test } from 'vitest';
import {
  budgetAt,
  budgetRange,
  costAxis,
  isDecided,
  outcomeOf,
  placeOn,
  pointsOf,
  satisfactionAxis,
  SLIDER_STEPS,
  spreadLabels,
  stepOf,
} from '../../src/lib/routes/estimates';

const estimate = (value: number, low = value, high = value) => ({ value, low, high });
const point = (cost: number, satisfaction = estimate(0.8, 0.72, 0.88)) => ({
  name: String(cost),
  cost: estimate(cost),
  satisfaction,
  isRouter: false,
});

test('routes without an estimate are no points', () => {
  const alone = [
    { route: 'small', cost_per_1k: estimate(1), satisfaction: estimate(0.5) },
    { route: 'new', cost_per_1k: null, satisfaction: null },
  ];
  const router = { cost_per_1k: estimate(2), satisfaction: estimate(0.7) };
  expect(pointsOf({ alone, router }, 'all').map(({ name, isRouter }) => [name, isRouter])).toEqual([
    ['small', false],
    ['all', true],
  ]);
});

test('costs of a similar size are on an even scale from zero, and others on a logarithmic one', () => {
  expect(costAxis([point(1), point(4.6)])).toEqual({ low: 0, high: 5, isLog: false, ticks: [0, 1, 2, 3, 4, 5] });
  const axis = costAxis([point(0.008), point(0.4)]);
  expect([axis.low, axis.high, axis.isLog]).toEqual([0.001, 1, true]);
  expect(placeOn(axis, 0.0316)).toBeCloseTo(0.5, 2);
  expect(placeOn(axis, 0)).toBe(0);
});

test('answers that cost nothing are at the left end', () => {
  const axis = costAxis([point(0)]);
  expect([placeOn(axis, 0), axis.high]).toEqual([0, 1]);
});

test('satisfaction is shown by tenths around what is known', () => {
  const { low, high } = satisfactionAxis([point(1)]);
  expect([low, high]).toEqual([0.7, 0.9]);
});

test('labels that would overlap are moved apart', () => {
  expect(spreadLabels([50, 10, 12], 17)).toEqual([50, 10, 27]);
});

test('a topic is decided where the best route is better beyond chance', () => {
  const route = (low: number, high: number) => ({
    route: 'r',
    satisfaction: estimate((low + high) / 2, low, high),
    answers: 9,
    rated: 9,
  });
  expect(isDecided({ routes: [route(0.8, 0.9), route(0.5, 0.7)] })).toBe(true);
  expect(isDecided({ routes: [route(0.8, 0.9), route(0.5, 0.85)] })).toBe(false);
  expect(isDecided({ routes: [] })).toBe(false);
});

test('money is called saved or lost only beyond chance', () => {
  expect([estimate(2, 1, 3), estimate(-2, -3, -1), estimate(1, -1, 3)].map(outcomeOf)).toEqual([
    'saved',
    'lost',
    'open',
  ]);
});

test('the slider reaches from a half of the cheapest to twice the most expensive', () => {
  const worth = (cost: number) => ({ satisfaction: null, cost_per_1k: estimate(cost) });
  const budget = { max_cost_per_1k: null, cost_per_1k: 0, price: 0 };
  const range = budgetRange({ alone: [{ route: 'a', ...worth(0.01) }], router: worth(1), budget });
  expect([budgetAt(range, 0), budgetAt(range, SLIDER_STEPS)]).toEqual([0.005, 2]);
  expect(stepOf(range, budgetAt(range, 40))).toBe(40);
  expect(budgetRange({ alone: [], router: { satisfaction: null, cost_per_1k: null }, budget }).low).toBeGreaterThan(0);
});
