import { expect, test } from 'vitest';
import type { RoutesApi } from '../../src/lib/api/routes';
import { ApiError } from '../../src/lib/http';
import { ReportOfRouter } from '../../src/lib/routes/router_report.svelte';
import type { BudgetPreview, RouterReport } from '../../src/lib/schema';

function open() {
  const calls: string[] = [];
  const change = async (call: string) => {
    calls.push(call);
    return { name: '', offset: 1 };
  };
  const api: RoutesApi = {
    get: async () => {
      calls.push('get');
      return { answers: 3 } as RouterReport;
    },
    preview: async (budget) => {
      calls.push(`preview ${budget}`);
      return { then: { max_cost_per_1k: budget } } as BudgetPreview;
    },
    setBudget: (budget) => change(`set ${budget}`),
    retire: (name) => change(`retire ${name}`),
    restore: (name) => change(`restore ${name}`),
  };
  return { api, calls, report: new ReportOfRouter(api, () => Promise.resolve()) };
}

test('only the last budget of a slider that is moved is previewed', async () => {
  const { calls, report } = open();
  await Promise.all([report.tryBudget(1), report.tryBudget(2)]);
  expect([calls, report.preview?.then.max_cost_per_1k]).toEqual([['preview 2'], 2]);
});

test('a budget that is set is read again, and no longer tried out', async () => {
  const { calls, report } = open();
  await report.tryBudget(2);
  expect(await report.setBudget()).toBe(true);
  expect(calls.slice(1)).toEqual(['set 2', 'get']);
  expect([report.wanted, report.preview, report.answer?.answers]).toEqual([null, null, 3]);
});

test('a budget that is refused stays in its box, with the reason', async () => {
  const { api, report } = open();
  await report.tryBudget(2);
  api.setBudget = () => Promise.reject(new ApiError('no', 403));
  expect([await report.setBudget(), report.wanted, report.isBusy]).toEqual([false, 2, false]);
  expect(report.refusal).not.toBeNull();
});

test('a route is switched off and on again', async () => {
  const { calls, report } = open();
  await report.switch('small', false);
  await report.switch('small', true);
  expect(calls).toEqual(['retire small', 'get', 'restore small', 'get']);
});
