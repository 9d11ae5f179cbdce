/* The requests of the learning page. */

import { call } from '../http';
import type {
  AlertsAnswer,
  Curve,
  DevicesAnswer,
  DriftChange,
  Health,
  Quarantine,
  QuarantineOutcome,
  Refusals,
  RolledBack,
  TestedEndpoint,
  TopQuestions,
  UsageAnswer,
  UsageUnit,
  VersionChanges,
} from '../schema';
import { createApi, pathOf, V1, versionPage } from './model';

export type LearningApi = ReturnType<typeof createLearningApi>;

export function createLearningApi(name: string) {
  const model = pathOf(name);
  return {
    ...createApi<unknown, unknown>(async () => name),
    health: () => call<Health>('GET', `${model}/health`),
    curve: () => call<Curve>('GET', `${model}/curve`),
    /** How many answers had been judged up to each offset; null: not counted yet, or not known any more. */
    judgedUntil: async (offsets: readonly number[]) => {
      const query = new URLSearchParams(offsets.map((offset) => ['offset', String(offset)]));
      return (await call<{ judged: (number | null)[] }>('GET', `${model}/curve/judged?${query}`)).judged;
    },
    /** Alarms grouped by the change that raised them, newest first. */
    driftChanges: async () => (await call<{ changes: DriftChange[] }>('GET', `${model}/drift`)).changes,
    /** Versions before one of them, newest first. */
    versionPage: (limit: number, before?: number) => versionPage(model, limit, before),
    /** Which of the newest questions a version answers otherwise than an earlier one.
        since: the earlier version; null for the one of an hour before. */
    changes: (version: string, since: string | null) => {
      const query = new URLSearchParams({ ...(since === null ? {} : { since }) });
      return call<VersionChanges>('GET', `${model}/versions/${encodeURIComponent(version)}/changes?${query}`);
    },
    refused: () => call<Refusals>('GET', `${model}/refused`),
    operator: createOperatorApi(model),
  };
}

export type OperatorApi = ReturnType<typeof createOperatorApi>;

/** model: its URL. */
function createOperatorApi(model: string) {
  const labelUrl = (name: string) => `${model}/version_labels/${encodeURIComponent(name)}`;
  return {
    quarantines: async () => (await call<{ quarantines: Quarantine[] }>('GET', `${model}/quarantine`)).quarantines,
    /** freeze: the reason to stop learning as well; null to go on learning. */
    rollBack: (version: string, freeze: string | null) => {
      const freezing = freeze === null ? {} : { freeze: true, reason: freeze };
      return call<RolledBack>('POST', `${model}:rollback`, { version, ...freezing });
    },
    freeze: (reason: string) => call('POST', `${model}:freeze`, { reason }),
    thaw: () => call('POST', `${model}:thaw`),
    label: (name: string, version: string) => call('PUT', labelUrl(name), { version }),
    unlabel: (name: string) => call('DELETE', labelUrl(name)),
    endQuarantine: (outcome: QuarantineOutcome) => call('POST', `${model}/quarantine:end`, { outcome }),
  };
}

/** A span of time: dates or instants. Dates are those of the time zone. until: not included; null: now. */
export interface UsageRange {
  from: string;
  until: string | null;
  timezone: string;
}

const rangeQuery = ({ until, ...range }: UsageRange) => ({ ...range, ...(until === null ? {} : { until }) });

export type UsageApi = ReturnType<typeof createUsageApi>;

export function createUsageApi(name: string) {
  const usage = `${pathOf(name)}/usage`;
  return {
    usage: (range: UsageRange, by: UsageUnit) =>
      call<UsageAnswer>('GET', `${usage}?${new URLSearchParams({ ...rangeQuery(range), by })}`),
    topQuestions: (range: UsageRange) =>
      call<TopQuestions>('GET', `${usage}/questions?${new URLSearchParams(rangeQuery(range))}`),
  };
}

export type AlertsApi = ReturnType<typeof createAlertsApi>;

export function createAlertsApi(name: string) {
  const alerts = `${pathOf(name)}/alerts`;
  return {
    list: () => call<AlertsAnswer>('GET', alerts),
    test: async () => (await call<{ endpoints: TestedEndpoint[] }>('POST', `${alerts}:test`)).endpoints,
  };
}

export const devicesApi = { get: () => call<DevicesAnswer>('GET', `${V1}/devices`) };
