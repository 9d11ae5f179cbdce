/* The door to the service, and the only file that knows a URL.

   state classes -> ModelApi -> fetch / EventSource -> /v1/models/{model}...
   Models -------> listModels -------------------------> /v1/models
*/

import { EVENT_TYPES, type ServerEvent } from './events';
import { knownKey, tabKeys } from './identity';
import type { LiveApi } from './live.svelte';
import type {
  ConversationKept,
  ConversationShown,
  Curve,
  Drift,
  EditReply,
  FeedbackFate,
  FeedbackRequest,
  Frozen,
  Guess,
  ImportAnswer,
  LabelShown,
  Learner,
  ModelCard,
  ModelStatus,
  NewReply,
  OpenCluster,
  Outcome,
  PredictRequest,
  PredictResponse,
  Quarantine,
  RefusedCandidate,
  RankerPrediction,
  Receipt,
  Refused,
  Replay,
  Replays,
  ReplyDetails,
  ReplyListed,
  ReplyShown,
  ReportState,
  RolledBack,
  Version,
  VersionLabel,
  WhyAnswer,
} from './schema';

/** What any model can be asked, whatever its predictions look like. */
export interface ModelApi<Prediction, Instance> {
  predict(request: PredictRequest<Instance>, signal?: AbortSignal): Promise<PredictResponse<Prediction>>;
  giveFeedback(feedback: FeedbackRequest): Promise<Receipt>;
  /** All or nothing. */
  giveAll(feedback: FeedbackRequest[]): Promise<Receipt[]>;
  feedback(id: string): Promise<FeedbackFate>;
  retract(id: string): Promise<Receipt>;
  status(): Promise<ModelStatus>;
  versions(): Promise<Version[]>;
  rollBack(version: string): Promise<RolledBack>;
  learner(): Promise<Learner>;
  /** Calls `hear` for each event and `lose` whenever the stream breaks; reopens it by itself. Returns the way to stop. */
  events(hear: (event: ServerEvent) => void, lose: () => void): () => void;
}

/** The chat's. user: whose conversations they are. */
export interface Api extends ModelApi<RankerPrediction, string> {
  /** Whether nothing is learned for now, because somebody wants it so. */
  frozen(): Promise<boolean>;
  why(predictionId: string): Promise<WhyAnswer>;
  /** words: that stand in them; "": all of them. */
  conversations(user: string, words: string): Promise<ConversationShown[]>;
  conversation(user: string, id: string): Promise<ConversationKept>;
  deleteConversation(user: string, id: string): Promise<void>;
  /** Both give the offset from which on it is so. */
  retire(replyId: string): Promise<number>;
  restore(text: string): Promise<number>;
}

/** What the page to draw on asks besides: of a classifier of 64 numbers. */
export interface DrawApi extends ModelApi<Guess, number[]> {
  labels(): Promise<LabelShown[]>;
  curve(): Promise<Curve>;
}

/** What only an operator may do. key: that says so, where the service wants one. */
export interface OperatorApi {
  standing(): Promise<{ labels: VersionLabel[]; frozen: Frozen | null; refused: RefusedCandidate[] }>;
  quarantines(): Promise<Quarantine[]>;
  rollBack(version: string, key: string | null): Promise<RolledBack>;
  freeze(reason: string, key: string | null): Promise<unknown>;
  thaw(key: string | null): Promise<unknown>;
  label(name: string, version: string, key: string | null): Promise<unknown>;
  unlabel(name: string, key: string | null): Promise<unknown>;
  endQuarantine(outcome: Outcome, key: string | null): Promise<unknown>;
}

export type FileFormat = 'jsonl' | 'csv';

/** What the repertoire's page asks besides, of a ranker. Whatever changes something gives the offset from which on it is so. */
export interface RepertoireApi extends ModelApi<RankerPrediction, string> {
  /** words: that stand in them, or in their example questions; "": all of them. */
  replies(words: string): Promise<ReplyListed[]>;
  replyDetails(id: string): Promise<ReplyDetails>;
  addReply(reply: NewReply): Promise<ReplyShown>;
  editReply(id: string, edit: EditReply): Promise<ReplyShown>;
  forgetExample(id: string, offset: number): Promise<Receipt>;
  unanswered(): Promise<OpenCluster[]>;
  importReplies(file: Blob, format: FileFormat, how: { dry_run: boolean; skip_bad: boolean }): Promise<ImportAnswer>;
  /** Where all of it can be had as a file. */
  exportOf(format: FileFormat): string;
}

/** What the learning page asks besides. */
export interface LearningApi extends LiveApi {
  status(): Promise<ModelStatus>;
  curve(): Promise<Curve>;
  drift(): Promise<Drift[]>;
  refused(): Promise<Refused[]>;
  readonly operator: OperatorApi;
}

/** What the page of reports asks of a model. */
export interface ReportApi extends Pick<ModelApi<unknown, unknown>, 'events'> {
  state(): Promise<ReportState>;
  make(): Promise<ReportState>;
  /** Where the report up to that event is shown as a page. */
  page(until: number): string;
}

/** How a log that is sent is to be replayed. models: kinds; none: those that fit. label: the column, of a table. */
export interface ReplayRequest {
  models: string[];
  label: string;
  maxBadRatio: number;
}

export interface ReplaysApi {
  list(): Promise<Replays>;
  /** at: told how much of it is sent, 0 to 1. */
  send(log: File, asked: ReplayRequest, at: (share: number) => void, signal: AbortSignal): Promise<Replay>;
  drop(id: string): Promise<void>;
  page(id: string): string;
}

export class ApiError extends Error {
  /** status: 0 where there was no answer. */
  constructor(
    message: string,
    readonly status = 0,
  ) {
    super(message);
  }
}

/** Somebody who wants to know of every call whether there was an answer. */
let told: (answered: boolean) => void = () => {};
export const tellReach = (hear: (answered: boolean) => void) => (told = hear);

/** Whether the service answers at all. */
export const answers = () =>
  fetch('/healthz', { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  );

const REOPEN_MS = 3000;

interface Around {
  user?: string;
  key?: string | null;
  signal?: AbortSignal | undefined;
}

async function call<T>(method: string, url: string, body?: unknown, { user, key, signal }: Around = {}): Promise<T> {
  const response = await fetch(url, {
    method,
    signal: signal ?? null,
    headers: {
      ...(body === undefined ? {} : { 'content-type': body instanceof Blob ? 'text/plain' : 'application/json' }),
      ...(user === undefined ? {} : { 'x-user': user }),
      ...(key ? { 'x-admin-key': key } : {}),
    },
    ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    told(false);
    throw new ApiError(NOBODY_THERE);
  });
  told(true);
  if (response.status === 204) return undefined as T;
  const answer = await response.json().catch(() => null); // a proxy's error page is no JSON; the status is told instead
  if (!response.ok) throw new ApiError(answer?.error ?? `The server answered ${response.status}.`, response.status);
  if (answer === null) throw new ApiError('The answer of the server broke off.');
  return answer;
}

const NOBODY_THERE = 'The server does not answer. Is it running?';

/** A body so large that it is worth telling how much of it is sent, which `fetch` does not. */
function upload<T>(url: string, body: Blob, at: (share: number) => void, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', url);
    request.responseType = 'json';
    const key = knownKey(tabKeys()); // where the service wants one, it was given on the learning page
    if (key !== null) request.setRequestHeader('x-admin-key', key);
    request.upload.onprogress = ({ loaded, total }) => at(total > 0 ? loaded / total : 0);
    request.onload = () => {
      const { status, response } = request;
      if (status < 300 && response !== null) resolve(response);
      else reject(new ApiError(response?.error ?? `The server answered ${status}.`, status));
    };
    request.onerror = () => {
      told(false);
      reject(new ApiError(NOBODY_THERE));
    };
    request.onabort = () => reject(signal.reason);
    signal.addEventListener('abort', () => request.abort());
    request.send(body);
  });
}

const pathOf = (name: string) => `/v1/models/${encodeURIComponent(name)}`;

export const listModels = async () => (await call<{ data: ModelCard[] }>('GET', '/v1/models')).data;

function listen(url: string, hear: (event: ServerEvent) => void, lose: () => void): EventSource {
  const source = new EventSource(url);
  for (const type of EVENT_TYPES)
    source.addEventListener(type, (message) => hear({ type, ...JSON.parse(message.data) }));
  source.onerror = () => {
    told(false);
    lose();
  };
  return source;
}

function keepListening(url: () => Promise<string>, hear: (event: ServerEvent) => void, lose: () => void) {
  let source: EventSource | undefined;
  let reopening: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;

  const open = () => url().then(listenTo, reopenLater);
  const listenTo = (where: string) => {
    if (!stopped) source = listen(where, hear, broken);
  };
  // The browser mends a broken line by itself, but gives up when a server that is starting answers with an error.
  const broken = () => (source?.readyState === EventSource.CLOSED ? reopenLater() : lose());
  const reopenLater = () => {
    lose();
    if (!stopped) reopening = setTimeout(open, REOPEN_MS);
  };

  void open();
  return () => {
    stopped = true;
    clearTimeout(reopening);
    source?.close();
  };
}

/** name: of the model; asked at every call, so whoever gives it should remember it. */
export function createApi<Prediction, Instance>(name: () => Promise<string>): ModelApi<Prediction, Instance> {
  const model = async () => pathOf(await name());
  const feedbackUrl = async (id: string) => `${await model()}/feedback/${encodeURIComponent(id)}`;
  const giveAll = async (feedback: FeedbackRequest[]) =>
    (await call<{ receipts: Receipt[] }>('POST', `${await model()}:feedback`, { feedback })).receipts;

  return {
    predict: async (request, signal) => call('POST', `${await model()}:predict`, request, { signal }),
    giveFeedback: async (feedback) => (await giveAll([feedback]))[0]!,
    giveAll,
    feedback: async (id) => call('GET', await feedbackUrl(id)),
    retract: async (id) => call('DELETE', await feedbackUrl(id)),
    status: async () => call('GET', await model()),
    versions: async () => (await call<{ versions: Version[] }>('GET', `${await model()}/versions`)).versions,
    rollBack: async (version) => call('POST', `${await model()}:rollback`, { version }),
    learner: async () => (await call<{ learner: Learner }>('GET', '/readyz')).learner,
    events: (hear, lose) => keepListening(async () => `${await model()}/events`, hear, lose),
  };
}

export function createChatApi(name: () => Promise<string>): Api {
  const model = async () => pathOf(await name());
  const kept = async (id: string) => `${await model()}/conversations/${encodeURIComponent(id)}`;

  return {
    ...createApi(name),
    frozen: async () => (await call<{ frozen: object | null }>('GET', `${await model()}/versions`)).frozen !== null,
    why: async (id) => call('GET', `${await model()}/predictions/${encodeURIComponent(id)}/why`),
    conversations: async (user, words) => {
      const url = `${await model()}/conversations?${new URLSearchParams({ q: words })}`;
      return (await call<{ conversations: ConversationShown[] }>('GET', url, undefined, { user })).conversations;
    },
    conversation: async (user, id) => call('GET', await kept(id), undefined, { user }),
    deleteConversation: async (user, id) => call('DELETE', await kept(id), undefined, { user }),
    retire: async (id) => {
      const url = `${await model()}/replies/${encodeURIComponent(id)}`;
      return (await call<{ offset: number }>('DELETE', url)).offset;
    },
    restore: async (text) => (await call<{ offset: number }>('POST', `${await model()}/replies`, { text })).offset,
  };
}

export function createDrawApi(name: string): DrawApi {
  return {
    ...createApi(async () => name),
    labels: async () => (await call<{ labels: LabelShown[] }>('GET', `${pathOf(name)}/labels`)).labels,
    curve: () => call('GET', `${pathOf(name)}/curve`),
  };
}

export function createRepertoireApi(name: string): RepertoireApi {
  const model = pathOf(name);
  const replyUrl = (id: string) => `${model}/replies/${encodeURIComponent(id)}`;
  return {
    ...createApi(async () => name),
    replies: async (words) => {
      const url = `${model}/replies?${new URLSearchParams({ q: words })}`;
      return (await call<{ replies: ReplyListed[] }>('GET', url)).replies;
    },
    replyDetails: (id) => call('GET', replyUrl(id)),
    addReply: (reply) => call('POST', `${model}/replies`, reply),
    editReply: (id, edit) => call('PUT', replyUrl(id), edit),
    forgetExample: (id, offset) => call('DELETE', `${replyUrl(id)}/examples/${offset}`),
    unanswered: async () => (await call<{ clusters: OpenCluster[] }>('GET', `${model}/unanswered`)).clusters,
    importReplies: (file, format, { dry_run, skip_bad }) => {
      const query = new URLSearchParams({ format, dry_run: String(dry_run), skip_bad: String(skip_bad) });
      return call('POST', `${model}/replies:import?${query}`, file);
    },
    exportOf: (format) => `${model}/replies:export?${new URLSearchParams({ format })}`,
  };
}

export function createLearningApi(name: string): LearningApi {
  const model = pathOf(name);
  return {
    ...createApi(async () => name),
    curve: () => call('GET', `${model}/curve`),
    drift: async () => (await call<{ drift: Drift[] }>('GET', `${model}/drift`)).drift,
    refused: async () => (await call<{ refused: Refused[] }>('GET', `${model}/refused`)).refused,
    operator: operatorApi(model),
  };
}

function operatorApi(model: string): OperatorApi {
  const labelled = (name: string) => `${model}/version_labels/${encodeURIComponent(name)}`;
  return {
    standing: () => call('GET', `${model}/versions`),
    quarantines: async () => (await call<{ quarantines: Quarantine[] }>('GET', `${model}/quarantine`)).quarantines,
    rollBack: (version, key) => call('POST', `${model}:rollback`, { version }, { key }),
    freeze: (reason, key) => call('POST', `${model}:freeze`, { reason }, { key }),
    thaw: (key) => call('POST', `${model}:thaw`, undefined, { key }),
    label: (name, version, key) => call('PUT', labelled(name), { version }, { key }),
    unlabel: (name, key) => call('DELETE', labelled(name), undefined, { key }),
    endQuarantine: (outcome, key) => call('POST', `${model}/quarantine:end`, { outcome }, { key }),
  };
}

export function createReportApi(name: string): ReportApi {
  const report = `${pathOf(name)}/report`;
  return {
    events: createApi(async () => name).events,
    state: () => call('GET', `${report}/state`),
    make: () => call('POST', report),
    page: (until) => `${report}?${new URLSearchParams({ until: String(until) })}`,
  };
}

export const replaysApi: ReplaysApi = {
  list: () => call('GET', '/v1/replays'),
  send: (log, { models, label, maxBadRatio }, at, signal) => {
    const query = new URLSearchParams({ name: log.name, label, max_bad_ratio: String(maxBadRatio) });
    for (const model of models) query.append('model', model);
    return upload(`/v1/replays?${query}`, log, at, signal);
  },
  drop: async (id) => void (await call('DELETE', `/v1/replays/${id}`, undefined, { key: knownKey(tabKeys()) })),
  page: (id) => `/v1/replays/${id}/report`,
};
