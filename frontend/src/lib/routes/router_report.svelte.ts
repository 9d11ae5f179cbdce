/* The report about a router, the preview of another budget, and changes of the router.

   report, again and again        a budget is moved -> preview -> set -> report
*/

import type { RoutesApi } from '../api/routes';
import type { BudgetPreview, RouteChange } from '../schema';
import type { Pause } from '../ui/live_status.svelte';
import { PolledAnswer } from '../ui/polled_answer.svelte';
import { problemOf } from '../ui/problems';

const EVERY_MS = 30_000;
const SETTLE_MS = 250; // of the slider, before a preview is asked for
const APPLY_MS = 1_000; // in which a change comes into force

export class ReportOfRouter extends PolledAnswer<Awaited<ReturnType<RoutesApi['get']>>> {
  /** The budget that is tried out: US dollars for 1,000 questions, 0 for none; null while none is. */
  wanted = $state<number | null>(null);
  preview = $state.raw<BudgetPreview | null>(null);
  /** Why the last change, or the preview, failed. */
  refusal = $state<string | null>(null);
  isBusy = $state(false);

  constructor(
    private routes: RoutesApi,
    pause: Pause,
  ) {
    super(routes, EVERY_MS, pause);
  }

  /** Preview a budget once it is no longer moved. */
  async tryBudget(budget: number): Promise<void> {
    this.wanted = budget;
    await this.pause(SETTLE_MS);
    if (this.wanted !== budget) return;
    const preview = await this.attempt(() => this.routes.preview(budget));
    if (preview && this.wanted === budget) this.preview = preview;
  }

  async setBudget(): Promise<boolean> {
    const { wanted } = this;
    if (wanted === null) return false;
    const isSet = await this.change(() => this.routes.setBudget(wanted));
    if (isSet) [this.wanted, this.preview] = [null, null];
    return isSet;
  }

  /** Send no more questions to a route, or questions again. */
  switch(name: string, isActive: boolean): Promise<boolean> {
    return this.change(() => (isActive ? this.routes.restore(name) : this.routes.retire(name)));
  }

  private async change(send: () => Promise<RouteChange>): Promise<boolean> {
    if (this.isBusy) return false;
    this.isBusy = true;
    const receipt = await this.attempt(send);
    if (receipt) {
      await this.pause(APPLY_MS);
      await this.load();
    }
    this.isBusy = false;
    return receipt !== null;
  }

  private async attempt<T>(send: () => Promise<T>): Promise<T | null> {
    this.refusal = null;
    try {
      return await send();
    } catch (error) {
      this.refusal = problemOf(error);
      return null;
    }
  }
}
