/* The requests that a model of any kind supports, on which those of the pages build. */

import { BASE_PATH } from '../base';
import { call, isAnswering, keepListening, withUser, type CallOptions } from '../http';
import type {
  FeedbackProgress,
  FeedbackRequest,
  Learner,
  ModelCard,
  ModelStatus,
  PredictRequest,
  PredictResponse,
  Receipt,
  RolledBack,
  Version,
  VersionPage,
} from '../schema';
import type { ServerEvent } from '../ui/events';

export const V1 = `${BASE_PATH}v1`;

export const pathOf = (model: string) => `${V1}/models/${encodeURIComponent(model)}`;

/** A request that another user's name would answer otherwise. */
export const OF_USER: CallOptions = { namesUser: true };
/** A request for which others wait: other tabs while the queue sends, and the page for its session. */
export const LIMITED: CallOptions = { limit_ms: 30_000 };

/** Whether the service answers. */
export const ping = () => isAnswering(`${BASE_PATH}healthz`);

export const listModels = async () => (await call<{ data: ModelCard[] }>('GET', `${V1}/models`)).data;

/** The requests that a model of any kind supports. */
export interface ModelApi<Prediction, Instance> {
  predict(request: PredictRequest<Instance>, signal?: AbortSignal): Promise<PredictResponse<Prediction>>;
  giveFeedback(feedback: FeedbackRequest): Promise<Receipt>;
  /** Send several. Either all or none are accepted. */
  giveAll(feedback: FeedbackRequest[]): Promise<Receipt[]>;
  feedback(id: string): Promise<FeedbackProgress>;
  retract(id: string): Promise<Receipt>;
  status(): Promise<ModelStatus>;
  /** The newest few, and the live one. */
  versions(): Promise<Version[]>;
  rollBack(version: string): Promise<RolledBack>;
  learner(): Promise<Learner>;
  /** Call `onEvent` for each event and `onDisconnect` when the stream breaks; it reconnects by itself. Returns a function that stops it. */
  events: (onEvent: (event: ServerEvent) => void, onDisconnect: () => void) => () => void;
}

/** Feedback that is kept in this browser until the service can be reached.
    delivered: its receipt; null if it was removed before; rejects if the service refused it. */
export interface Queued {
  delivered: Promise<Receipt | null>;
}

/** How feedback is given and taken back on pages that go on without the service. */
export interface FeedbackApi {
  giveFeedback(feedback: FeedbackRequest): Promise<Receipt | Queued>;
  retract(id: string): Promise<Receipt | Queued>;
}

/** The same requests, of which feedback may wait in this browser. */
export type Offlineable<A extends FeedbackApi> = Omit<A, keyof FeedbackApi> & FeedbackApi;

export function versionPage(model: string, limit: number, before?: number): Promise<VersionPage> {
  const query = new URLSearchParams({
    limit: String(limit),
    ...(before === undefined ? {} : { before: String(before) }),
  });
  return call('GET', `${model}/versions?${query}`);
}

const NEWEST_VERSIONS = 8;

/** After a roll back the live version may be far behind the newest. */
async function newestVersions(model: string): Promise<Version[]> {
  const { versions, live_version } = await versionPage(model, NEWEST_VERSIONS);
  if (live_version === '0' || versions.some(({ version }) => version === live_version)) return versions;
  const rest = await versionPage(model, 1, Number(live_version) + 1);
  return [...versions, ...rest.versions.filter(({ version }) => version === live_version)];
}

/** name: returns the name of the model; called for every request. */
export function createApi<Prediction, Instance>(name: () => Promise<string>): ModelApi<Prediction, Instance> {
  const model = async () => pathOf(await name());
  const feedbackUrl = async (id: string) => `${await model()}/feedback/${encodeURIComponent(id)}`;
  const giveAll = async (feedback: FeedbackRequest[]) =>
    (
      await call<{ receipts: Receipt[] }>('POST', `${await model()}:feedback`, {
        feedback: feedback.map(withUser),
      })
    ).receipts;

  return {
    predict: async (request, signal) => call('POST', `${await model()}:predict`, withUser(request), { signal }),
    giveFeedback: async (feedback) => (await giveAll([feedback]))[0]!,
    giveAll,
    feedback: async (id) => call('GET', await feedbackUrl(id)),
    retract: async (id) => call('DELETE', await feedbackUrl(id)),
    status: async () => call('GET', await model()),
    versions: async () => newestVersions(await model()),
    rollBack: async (version) => call('POST', `${await model()}:rollback`, { version }),
    learner: async () => (await call<{ learner: Learner }>('GET', `${BASE_PATH}readyz`)).learner,
    events: (onEvent, onDisconnect) => keepListening(async () => `${await model()}/events`, onEvent, onDisconnect),
  };
}
