/* The requests of the page of routes. */

import { call } from '../http';
import type { BudgetPreview, RouteChange, RouterReport } from '../schema';
import { pathOf } from './model';

export type RoutesApi = ReturnType<typeof createRoutesApi>;

export function createRoutesApi(model: string) {
  const routes = `${pathOf(model)}/routes`;
  const urlOf = (name: string) => `${routes}/${name.split('/').map(encodeURIComponent).join('/')}`;

  return {
    get: () => call<RouterReport>('GET', `${routes}/report`),
    /** budget: US dollars for 1,000 questions; 0: none. */
    preview: (budget: number) => call<BudgetPreview>('GET', `${routes}/preview?max_cost_per_1k=${budget}`),
    setBudget: (budget: number) => call<RouteChange>('PUT', `${routes}/settings`, { max_cost_per_1k: budget }),
    /** Send no more questions to a route. */
    retire: (name: string) => call<RouteChange>('DELETE', urlOf(name)),
    restore: (name: string) => call<RouteChange>('PUT', urlOf(name), { active: true }),
  };
}
