/* How one model learns: its live version, accuracy, drift and refused feedback.

   LiveStatus (events) -> refresh -> status, curve, drift, refused -> the page
*/

import type { LearningApi } from '../api';
import { coalesce } from '../ui/coalesce';
import { LiveStatus, type Pause } from '../ui/live_status.svelte';
import { messageOf } from '../ui/wording';
import { Operator } from './operator.svelte';
import { curveChart } from '../ui/plots';
import type { Curve, Drift, ModelStatus, RefusedEvent } from '../schema';

const REST_MS = 500; // pause between two refreshes, however many versions are published

export class Learning {
  readonly live: LiveStatus;
  readonly operator: Operator;
  status = $state.raw<ModelStatus | null>(null);
  curve = $state.raw<Curve | null>(null);
  drift = $state.raw<Drift[]>([]);
  refused = $state.raw<RefusedEvent[]>([]);
  problem = $state<string | null>(null);
  chart = $derived(this.curve && curveChart(this.curve, this.drift));

  private refresh: () => void;

  constructor(
    readonly api: LearningApi,
    pause: Pause,
    mayOperate: boolean,
  ) {
    this.refresh = coalesce(() => this.load(), pause, REST_MS);
    this.live = new LiveStatus(api, pause, () => this.refresh());
    this.operator = new Operator(api.operator, mayOperate, () => this.live.listVersions());
  }

  start() {
    this.live.start();
    this.refresh();
  }

  stop() {
    this.live.stop();
  }

  private async load() {
    try {
      const { api } = this;
      const answers = Promise.all([
        api.status(),
        api.curve(),
        api.drift(),
        this.operator.isAllowed ? api.refused() : [],
        this.operator.refresh(),
      ]);
      [this.status, this.curve, this.drift, this.refused] = await answers;
      this.problem = null;
    } catch (error) {
      this.problem = messageOf(error);
    }
  }
}
