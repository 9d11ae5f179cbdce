/* How one model learns: the verdict, its live version, accuracy, alarms and refused feedback.

   LiveStatus (events) -> refresh -> health, status, curve, changes, versions, refused -> the page
*/

import type { LearningApi } from '../api/learning';
import { t } from '../messages';
import { coalesce } from '../ui/coalesce';
import { LiveStatus, type Pause } from '../ui/live_status.svelte';
import { detailOf, problemOf } from '../ui/problems';
import { count, figure, minute, percent } from '../ui/wording';
import { Comparison } from './comparison.svelte';
import { Operator } from './operator.svelte';
import { JudgedNumbers } from './judged_numbers.svelte';
import { answerAt, judgedPoints, namePlace, NO_PLACES, numberAtOf, resultBefore, timeAt, type Places } from './places';
import { isFall, wordVerdict } from './verdict';
import { isNewer, isOlder, VersionList } from './version_list.svelte';
import { curveChart, versionTicks, type EventMark } from '../ui/plots';
import type { Curve, DriftChange, Health, ModelStatus, Refusals, Version } from '../schema';

const MARKED = 100; // newest versions that the chart marks
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
  refused = $state.raw<Refusals>();
  problem = $state<string | null>(null);
  /** The newest kept versions, newest first. */
  kept = $state.raw<Version[]>([]);
  points = $derived(judgedPoints(this.curve?.points ?? []));
  /** Where events lie among the judged answers: the same exact numbers everywhere on the page. */
  places = $derived.by((): Places => {
    const { curve, points, judged } = this;
    return curve ? { points, numberAt: numberAtOf(curve, (offset) => judged.at(offset)) } : NO_PLACES;
  });
  verdict = $derived(this.health && wordVerdict(this.health, this.places));
  chart = $derived.by(() => {
    if (!this.curve) return null;
    const chart = curveChart(this.curve, this.changes, this.marks(), this.places.numberAt);
    const marks = [...chart.marks, ...versionTicks(this.places, this.liveBefore())];
    return { ...chart, marks, namesOnly: true };
  });

  readonly refresh: () => void;
  private readonly judged: JudgedNumbers;

  constructor(
    readonly api: LearningApi,
    pause: Pause,
    { mayOperate, mayCurate }: LearningRights,
  ) {
    this.judged = new JudgedNumbers(api);
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

  /** Where the newest event lies that a version has learned; of a model that was only taught, when that was.

     made: when the version was made. A point of the curve may end later, with answers that were judged since. */
  place(offset: number, made: string | null = null): string {
    const taught = this.curve?.points.find((point) => point.offset >= offset)?.ended ?? null;
    const counted = Math.min(offset, this.curve?.counted_until ?? 0); // the curve may be older than the version
    const answer = answerAt(this.places, counted);
    const judged = answer === null ? taught : timeAt(this.points, answer);
    const isLater = judged !== null && made !== null && Date.parse(judged) > Date.parse(made);
    return namePlace(this.places, answer === null ? offset : counted, isLater ? made : judged);
  }

  /** When a version was made, and how good the answers were before the fall that it is offered for, or else those judged before
      it was made; "" if neither is known. */
  knownOf(version: string): string {
    const found = [...this.kept, ...this.versions.shown].find((each) => each.version === version);
    if (!found) return '';
    const words = t.learning.actions;
    const made = words.made(minute(found.created_at));
    const isError = this.health?.measure === 'error';
    const show = isError ? figure : percent;
    const fall = version === this.verdict?.rollBackTo ? this.health?.reasons.find(isFall) : null;
    if (fall) {
      const { before, before_count: judged } = fall.figures;
      const say = isError ? words.errorBeforeRise : words.rightBeforeFall;
      return `${made} ${say(count(Number(judged)), show(Number(before)))}`;
    }
    const before = resultBefore(this.points, found.learned_until);
    if (before === null) return made;
    const say = isError ? words.errorBefore : words.rightBefore;
    return `${made} ${say(count(before.count), show(before.mean))}`;
  }

  /** How many answers were judged after the newest event that the live version has learned; null: not known yet. */
  get judgedSince(): number | null {
    const learned = answerAt(this.places, this.live.learnedUntil);
    const judged = this.points.at(-1)?.until ?? 0;
    return learned === null ? null : Math.max(0, judged - learned);
  }

  /** The newest kept version that learned nothing of the answers that are worse; null: unknown. */
  beforeDecline(): string | null {
    const worse = this.health?.reasons.find(({ code }) => code === 'declining')?.figures['count'];
    const first = (this.points.at(-1)?.until ?? 0) - Number(worse);
    const until = this.points.findLast((point) => point.until <= first)?.offset ?? 0;
    const older = this.kept.find(
      ({ version, learned_until }) =>
        isOlder(version, this.versions.live) && learned_until > 0 && learned_until <= until,
    );
    return older?.version ?? null;
  }

  /** What the chart marks besides alarms: where a fall begins, or where a roll back made another version live. */
  private marks(): EventMark[] {
    const { fall, liveAgain, guardRolledBack, rollBack, rolledBack } = t.learning.chart;
    const [health, rolledBackTo] = [this.health, this.verdict?.rolledBackTo];
    const past = this.operator.quarantines.flatMap(({ offset, rolled_back_to: to }) =>
      to === null ? [] : [{ offset, name: guardRolledBack(String(to)), kind: rollBack }],
    );
    if (rolledBackTo) {
      const at = health?.reasons.find(({ code }) => code === 'rolled_back')?.figures['since'];
      return typeof at === 'number' ? [...past, { offset: at, name: liveAgain(rolledBackTo) }] : past;
    }
    const last = health?.last_roll_back;
    const isOfGuard = this.operator.quarantines.some(
      ({ rolled_back_to: to, offset }) => `${to}` === last?.version && offset >= last.since,
    );
    if (last && !isOfGuard) past.push({ offset: last.since, name: rolledBack(last.version), kind: rollBack });
    const since = health?.reasons.find(isFall)?.figures['since'];
    return typeof since === 'number' ? [{ offset: since + 1, name: fall, isBegin: true }, ...past] : past;
  }

  /** The kept versions that are live or were. Without a roll back, one that is newer than the live version was not. */
  private liveBefore(): Version[] {
    const { health, kept } = this;
    if (!health) return [];
    return kept.filter(({ version }) => !isNewer(version, health.newest_version));
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
      api.curve().then((curve) => this.showCurve(curve)),
      api.versionPage(MARKED).then(({ versions }) => (this.kept = versions)),
      api.driftChanges().then((changes) => (this.changes = changes)),
      this.operator.isAllowed && api.refused().then((refused) => (this.refused = refused)),
    ]);
  }

  private showCurve(curve: Curve) {
    if (curve.counted_until < (this.curve?.counted_until ?? 0)) this.judged.forget();
    this.judged.retry();
    this.curve = curve;
  }
}
