/* Where alerts are sent, how that goes, and a test of it. */

import type { AlertsApi } from '../api';
import type { AlertsAnswer, TestedEndpoint } from '../schema';
import { problemOf } from '../ui/problems';

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
