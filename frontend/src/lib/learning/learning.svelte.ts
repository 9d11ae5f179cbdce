/* How one model learns: the verdict, its live version, accuracy, alarms and refused feedback.

   LiveStatus (events) -> refresh -> health, status, curve, changes, versions, refused -> the page
*/

import type { LearningApi } from '../api';
import { t } from '../messages';
import { coalesce } from '../ui/coalesce';
import { LiveStatus, type Pause } from '../ui/live_status.svelte';
import { detailOf, problemOf } from '../ui/problems';
import { Comparison } from './comparison.svelte';
import { Operator } from './operator.svelte';
import { isFall, wordVerdict } from './verdict';
import { VersionList } from './version_list.svelte';
import { curveChart } from '../ui/plots';
import type { Curve, DriftChange, Health, ModelStatus, RefusedEvent } from '../schema';

const REST_MS = 500; // pause between two refreshes, however many versions are published

/** What the caller may do on the page. */
export interface LearningRights {
  mayOperate: boolean;
  mayCurate: boolean;
}

export class Learning {
  readonly live: LiveStatus;
  readonly operator: Operator;
  readonly versions: VersionList;
  readonly comparison: Comparison;
  health = $state.raw<Health | null>(null);
  status = $state.raw<ModelStatus | null>(null);
  curve = $state.raw<Curve | null>(null);
  changes = $state.raw<DriftChange[]>([]);
  refused = $state.raw<RefusedEvent[]>([]);
  problem = $state<string | null>(null);
  points = $derived(this.curve?.points ?? []);
  verdict = $derived(this.health && wordVerdict(this.health, this.points));
  chart = $derived(this.curve && curveChart(this.curve, this.changes, this.marks()));

  readonly refresh: () => void;

  constructor(
    readonly api: LearningApi,
    pause: Pause,
    { mayOperate, mayCurate }: LearningRights,
  ) {
    this.refresh = coalesce(() => this.load(), pause, REST_MS);
    this.live = new LiveStatus(api, pause, () => this.refresh());
    this.versions = new VersionList((limit, before) => api.versionPage(limit, before));
    this.comparison = new Comparison(api, mayCurate);
    this.operator = new Operator(
      api.operator,
      mayOperate,
      () => this.versions.refresh(),
      () => Promise.all([this.live.listVersions(), this.loadFigures()]),
    );
  }

  start() {
    this.live.start();
    this.refresh();
  }

  stop() {
    this.live.stop();
  }

  /** What the chart marks besides alarms: where a fall begins, and up to where the version has learned that a roll back made live. */
  private marks(): { offset: number; name: string }[] {
    const { fall, liveAgain } = t.learning.chart;
    const [health, rolledBackTo] = [this.health, this.verdict?.rolledBackTo];
    if (rolledBackTo) return [{ offset: this.live.learnedUntil, name: liveAgain(rolledBackTo) }];
    const since = health?.reasons.find(isFall)?.figures['since'];
    return typeof since === 'number' ? [{ offset: since + 1, name: fall }] : [];
  }

  private async load() {
    try {
      await Promise.all([this.loadFigures(), this.operator.refresh()]);
      this.problem = null;
    } catch (error) {
      this.problem = this.operator.isAllowed ? detailOf(error) : problemOf(error);
    }
  }

  private async loadFigures() {
    const { api } = this;
    await Promise.all([
      api.health().then((health) => (this.health = health)), // the first figures do not wait for the others
      api.status().then((status) => (this.status = status)),
      api.curve().then((curve) => (this.curve = curve)),
      api.driftChanges().then((changes) => (this.changes = changes)),
      this.operator.isAllowed && api.refused().then((refused) => (this.refused = refused)),
    ]);
  }
}
