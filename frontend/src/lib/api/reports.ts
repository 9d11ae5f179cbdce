/* The requests of the reports page: the report of a model, and the replays of uploaded logs. */

import { call, upload } from '../http';
import { language } from '../messages';
import type { RecognisedColumns, Replay, Replays, ReportState } from '../schema';
import { createApi, pathOf, V1 } from './model';

/** A query for reports in the language of the pages. */
const inLanguage = (query: Record<string, string> = {}) => new URLSearchParams({ ...query, language });

export type ReportApi = ReturnType<typeof createReportApi>;

export function createReportApi(name: string) {
  const report = `${pathOf(name)}/report`;
  return {
    events: createApi(async () => name).events,
    state: () => call<ReportState>('GET', `${report}/state?${inLanguage()}`),
    generate: () => call<ReportState>('POST', `${report}?${inLanguage()}`),
    /** Stop a report that is being made. */
    cancel: () => call<void>('DELETE', report),
    /** The URL of the report up to an event. */
    page: (until: number) => `${report}?${inLanguage({ until: String(until) })}`,
  };
}

/** Options of a replay. models: kinds, none for all suitable. label: the label's column in a table. */
export interface ReplayRequest {
  models: string[];
  label: string;
  maxBadRatio: number;
  columns: ColumnChoice;
}

/** Which columns of a table are read. drop: left out. features: the only ones; none for all. */
export interface ColumnChoice {
  drop: string[];
  features: string[];
}

/** A name that is also a pattern stands for itself. */
const literally = (name: string) => name.replace(/[*?[]/g, '[$&]');

function addColumns(query: URLSearchParams, { drop, features }: ColumnChoice) {
  for (const name of drop) query.append('drop', literally(name));
  for (const name of features) query.append('feature', literally(name));
}

export type ReplaysApi = typeof replaysApi;

export const replaysApi = {
  list: () => call<Replays>('GET', `${V1}/replays?${inLanguage()}`),
  /** What the columns of a table are. start: the file or its first lines; name: of the file. */
  recogniseColumns: (start: Blob, name: string, label: string, columns: ColumnChoice) => {
    const query = new URLSearchParams({ name, label });
    addColumns(query, columns);
    const url = `${V1}/replays:columns?${query}`;
    return upload<RecognisedColumns>(url, start, () => {}, new AbortController().signal);
  },
  /** onProgress: called with the share uploaded, 0 to 1. */
  send: (
    log: File,
    { models, label, maxBadRatio, columns }: ReplayRequest,
    onProgress: (share: number) => void,
    signal: AbortSignal,
  ) => {
    const query = new URLSearchParams({ name: log.name, label, max_bad_ratio: String(maxBadRatio) });
    for (const model of models) query.append('model', model);
    addColumns(query, columns);
    return upload<Replay>(`${V1}/replays?${query}`, log, onProgress, signal);
  },
  drop: (id: string) => call<void>('DELETE', `${V1}/replays/${id}`),
  page: (id: string) => `${V1}/replays/${id}/report?${inLanguage()}`,
};
