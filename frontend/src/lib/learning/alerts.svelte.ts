/* Where alerts are sent, how that goes, and a test of it. */

import type { AlertsApi } from '../api/learning';
import type { AlertsAnswer, TestedEndpoint } from '../schema';
import { problemOf } from '../ui/problems';

/** Endpoints with names of their own: addresses are shown without their paths, so that those of one host are numbered. */
export function tellApart<Shown extends { endpoint: string }>(endpoints: Shown[]) {
  const seen = new Map<string, number>();
  return endpoints.map((endpoint) => {
    const address = endpoint.endpoint;
    const number = (seen.get(address) ?? 0) + 1;
    seen.set(address, number);
    const isShared = endpoints.some((other) => other !== endpoint && other.endpoint === address);
    return { name: isShared ? `${address} (${number})` : address, endpoint };
  });
}

export class Alerts {
  answer = $state.raw<AlertsAnswer | null>(null);
  tested = $state.raw<TestedEndpoint[]>([]);
  isTesting = $state(false);
  problem = $state<string | null>(null);

  constructor(readonly api: AlertsApi) {}

  async load() {
    try {
      this.answer = await this.api.list();
      this.problem = null;
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  async test() {
    this.isTesting = true;
    this.tested = [];
    try {
      this.tested = await this.api.test();
      this.problem = null;
    } catch (error) {
      this.problem = problemOf(error);
    } finally {
      this.isTesting = false;
    }
  }
}
