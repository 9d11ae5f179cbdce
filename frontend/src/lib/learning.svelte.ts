/* How one model learns: what is live, how often it was right, what drifted, what it could not learn.

   Live (events) --heard--> refresh -> status, curve, drift, refused -> the page
*/

import type { LearningApi } from './api';
import { gathered } from './gathered';
import { Live, type Pause } from './live.svelte';
import { messageOf } from './words';
import type { Keys } from './identity';
import { Operator } from './operator.svelte';
import { curveChart } from './plots';
import type { Curve, Drift, ModelStatus, Refused } from './schema';

const REST_MS = 500; // between two looks, however many versions come

export class Learning {
  readonly live: Live;
  readonly operator: Operator;
  status = $state.raw<ModelStatus | null>(null);
  curve = $state.raw<Curve | null>(null);
  drift = $state.raw<Drift[]>([]);
  refused = $state.raw<Refused[]>([]);
  problem = $state<string | null>(null);
  chart = $derived(this.curve && curveChart(this.curve, this.drift));

  private refresh: () => void;

  constructor(
    readonly api: LearningApi,
    pause: Pause,
    keys: Keys | null = null,
  ) {
    this.refresh = gathered(() => this.ask(), pause, REST_MS);
    this.live = new Live(api, pause, () => this.refresh());
    this.operator = new Operator(api.operator, keys, () => this.live.listVersions());
  }

  start() {
    this.live.start();
    this.refresh();
  }

  stop() {
    this.live.stop();
  }

  private async ask() {
    try {
      const { api } = this;
      const asked = Promise.all([api.status(), api.curve(), api.drift(), api.refused(), this.operator.look()]);
      [this.status, this.curve, this.drift, this.refused] = await asked;
      this.problem = null;
    } catch (error) {
      this.problem = messageOf(error);
    }
  }
}
