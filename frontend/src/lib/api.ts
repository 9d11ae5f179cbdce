/* The client of the service's API, and the only file that contains its URLs.

   state classes -> ModelApi -> fetch / EventSource -> /v1/models/{model}...
   Models -------> listModels -------------------------> /v1/models
   Session ------> sessionApi -------------------------> /v1/session
*/

import { BASE_PATH } from './base';
import { language } from './messages';
import { EVENT_TYPES, type ServerEvent } from './ui/events';
import { mergeByScore } from './inbox/likely';
import type { ComparisonApi } from './learning/comparison.svelte';
import type { DeltaApi } from './offline/learner_file';
import type { ExportApi, ExportedFile } from './offline/local_model.svelte';
import type { QueueApi } from './offline/queue.svelte';
import type { LiveStatusApi } from './ui/live_status.svelte';
import type { SessionApi } from './ui/session.svelte';
import type {
  Candidate,
  Cause,
  StoredConversation,
  ConversationChange,
  ConversationPage,
  ConversationSummary,
  SharedConversation,
  Curve,
  DriftChange,
  EditReply,
  EncoderManifest,
  FeedbackItem,
  FeedbackProgress,
  FeedbackRequest,
  Guess,
  Health,
  Decided,
  DecideRequest,
  InboxAnswer,
  InboxCount,
  ImportAnswer,
  ClassInfo,
  Learner,
  ModelCard,
  ModelStatus,
  NewReply,
  OpenCluster,
  QuarantineOutcome,
  PredictRequest,
  PredictResponse,
  Quarantine,
  RankerPrediction,
  Receipt,
  Refusals,
  Replay,
  Replays,
  RecognisedColumns,
  ReplyDetails,
  RepliesAnswer,
  ReplySummary,
  SavedReply,
  SessionAnswer,
  Taught,
  TaughtExample,
  ReportState,
  RolledBack,
  Version,
  VersionPage,
  ExplanationAnswer,
  AlertsAnswer,
  DevicesAnswer,
  TestedEndpoint,
  TopQuestions,
  UsageAnswer,
  UsageUnit,
} from './schema';

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

/** A question; a short follow-up is read with the questions before it. */
export type ChatInstance = string | { text: string; previous: string[] };

/** The requests of the chat. */
export interface Api extends ModelApi<RankerPrediction, ChatInstance> {
  /** Whether learning is frozen. */
  frozen(): Promise<boolean>;
  explain(predictionId: string): Promise<ExplanationAnswer>;
  /** words: to search for; "" for all. */
  conversations(words: string, before?: string | null): Promise<ConversationPage>;
  conversation(id: string): Promise<StoredConversation>;
  changeConversation(id: string, change: ConversationChange): Promise<ConversationSummary>;
  /** Let everybody who has the link read the conversation as it is now.
      until: the last turn to share; null for the newest. */
  shareConversation(id: string, until: string | null): Promise<{ share_id: string }>;
  unshareConversation(id: string): Promise<void>;
  deleteConversation(id: string): Promise<void>;
  /** Both return the offset of the change. */
  retire(replyId: string): Promise<number>;
  restore(replyId: string): Promise<number>;
}

/** The requests of the drawing page, for a classifier of 64 numbers. */
export interface DrawApi extends ModelApi<Guess, number[]> {
  classes(): Promise<ClassInfo[]>;
  curve(): Promise<Curve>;
  /** What was taught, the newest drawings of each class. */
  examples(of: 'user' | 'everyone', limit: number): Promise<Taught>;
  /** Take back all own drawings of a class. Returns how many. */
  forgetClass(label: string): Promise<number>;
  /** Teach what was taken back once more. id: a new one for the feedback. */
  teachAgain(example: TaughtExample, label: string, id: string): Promise<void>;
}

/** The requests of an operator. */
export interface OperatorApi {
  quarantines(): Promise<Quarantine[]>;
  /** freeze: the reason to stop learning as well; null to go on learning. */
  rollBack(version: string, freeze: string | null): Promise<RolledBack>;
  freeze(reason: string): Promise<unknown>;
  thaw(): Promise<unknown>;
  label(name: string, version: string): Promise<unknown>;
  unlabel(name: string): Promise<unknown>;
  endQuarantine(outcome: QuarantineOutcome): Promise<unknown>;
}

export type FileFormat = 'jsonl' | 'csv'; // that are written
export type ImportFormat = FileFormat | 'xlsx';

/** Which replies are asked for. q: words of the text or of one example question. after: the `next` of the page before. */
export interface ReplyQuery {
  q?: string;
  show?: 'all' | 'given' | 'retired' | 'never_right';
  sort?: 'listed' | 'newest' | 'most_rated' | 'least_right' | 'by_text';
  limit: number;
  after?: string | null;
}

/** The requests of the repertoire page, for a ranker. Changes return their offset. */
export interface RepertoireApi extends ModelApi<RankerPrediction, string> {
  /** A page of the replies that fit. */
  replies(query: ReplyQuery, signal?: AbortSignal): Promise<RepliesAnswer>;
  replyDetails(id: string): Promise<ReplyDetails>;
  addReply(reply: NewReply): Promise<SavedReply>;
  editReply(id: string, edit: EditReply): Promise<SavedReply>;
  forgetExample(id: string, offset: number): Promise<Receipt>;
  unanswered(): Promise<OpenCluster[]>;
  importReplies(
    file: Blob,
    format: ImportFormat,
    options: { dry_run: boolean; skip_bad: boolean },
  ): Promise<ImportAnswer>;
  /** Let questions that need no reply stay away. predictions: one of each question at least. */
  dismiss(predictions: string[]): Promise<Decided>;
  undoDismissal(decision: string): Promise<unknown>;
  /** The URL of the repertoire as a file. */
  exportOf(format: FileFormat): string;
}

/** What the inbox is asked for. */
export interface InboxQuery {
  state: 'open' | 'done';
  sort: 'newest' | 'largest';
  assignee?: string;
  q?: string;
  only?: 'waiting' | 'thumb_down' | 'new_reply';
}

/** The requests of the inbox. */
export interface InboxApi extends Pick<ModelApi<unknown, unknown>, 'events'> {
  inbox(query: InboxQuery): Promise<InboxAnswer>;
  count(): Promise<InboxCount>;
  decide(request: DecideRequest): Promise<Decided>;
  undo(decision: string): Promise<unknown>;
  assign(ids: string[], assignee: string | null): Promise<unknown>;
  /** The first replies with these words that are given. */
  findReplies(words: string, limit: number, signal: AbortSignal): Promise<ReplySummary[]>;
  /** The replies that the model finds most likely for any of the texts, the best first. The texts are not recorded. */
  likelyReplies(...texts: string[]): Promise<Candidate[]>;
}

/** A span of time: dates or instants. Dates are those of the time zone. until: not included; null: now. */
export interface UsageRange {
  from: string;
  until: string | null;
  timezone: string;
}

/** The requests of the section about the use. */
export interface UsageApi {
  usage(range: UsageRange, by: UsageUnit): Promise<UsageAnswer>;
  topQuestions(range: UsageRange): Promise<TopQuestions>;
}

/** The requests of the section about alerts. */
export interface AlertsApi {
  list(): Promise<AlertsAnswer>;
  test(): Promise<TestedEndpoint[]>;
}

/** The requests of the section about devices. */
export interface DevicesApi {
  get(): Promise<DevicesAnswer>;
}

/** The requests of the learning page. */
export interface LearningApi extends LiveStatusApi, ComparisonApi {
  health(): Promise<Health>;
  status(): Promise<ModelStatus>;
  curve(): Promise<Curve>;
  /** How many answers had been judged up to each offset; null: not counted yet, or not known any more. */
  judgedUntil(offsets: readonly number[]): Promise<(number | null)[]>;
  /** Alarms grouped by the change that raised them, newest first. */
  driftChanges(): Promise<DriftChange[]>;
  /** Versions before one of them, newest first. */
  versionPage(limit: number, before?: number): Promise<VersionPage>;
  refused(): Promise<Refusals>;
  readonly operator: OperatorApi;
}

/** The requests for the report of a model. */
export interface ReportApi extends Pick<ModelApi<unknown, unknown>, 'events'> {
  state(): Promise<ReportState>;
  generate(): Promise<ReportState>;
  /** Stop a report that is being made. */
  cancel(): Promise<void>;
  /** The URL of the report up to an event. */
  page(until: number): string;
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

export interface ReplaysApi {
  list(): Promise<Replays>;
  /** What the columns of a table are. start: the file or its first lines; name: of the file. */
  recogniseColumns(start: Blob, name: string, label: string, columns: ColumnChoice): Promise<RecognisedColumns>;
  /** onProgress: called with the share uploaded, 0 to 1. */
  send(log: File, request: ReplayRequest, onProgress: (share: number) => void, signal: AbortSignal): Promise<Replay>;
  drop(id: string): Promise<void>;
  page(id: string): string;
}

/** given, limit: the characters of a text that is too long, and the most that are accepted. */
interface ErrorDetails {
  given?: number;
  limit?: number;
  /** Who has decided before, and what. */
  by?: string;
  action?: string;
  /** Why a log was refused. */
  cause?: Cause | null;
}

export class ApiError extends Error {
  /** status: of the response; 0 without one. retryAfter_s: when the service accepts another; null if it does not say. */
  constructor(
    message: string,
    readonly status = 0,
    readonly retryAfter_s: number | null = null,
    readonly details: ErrorDetails = {},
  ) {
    super(message);
  }
}

/** Whether a request failed because nothing answered. */
export const isUnreachable = (error: unknown): error is ApiError => error instanceof ApiError && error.status === 0;

/** Called after each request with whether it was answered. */
let reportConnection: (answered: boolean) => void = () => {};
export const watchConnection = (onEvent: (answered: boolean) => void) => (reportConnection = onEvent);

/** What the requests need to know of the session. */
interface Identity {
  /** The user to name in requests; undefined if the service finds it out by itself. */
  user?: string | undefined;
  /** Called when a request was refused because of who sent it: the session may have ended. */
  load: () => unknown;
}
let identity: Identity = { load: () => {} };
export const speakFor = (session: Identity) => (identity = session);

const GATEWAY_STATUSES = [502, 503, 504];

/** Whether a proxy has answered, because the service did not. The service itself answers these statuses in JSON.
    answer: null for what is not JSON. */
const isOfProxy = (status: number, answer: unknown) => answer === null && GATEWAY_STATUSES.includes(status);

const REFUSALS = [401, 403]; // the caller is not known, or may not do this

/** Whether the service answers. */
export const ping = () =>
  fetch(`${BASE_PATH}healthz`, { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  );

const REOPEN_MS = 3000;

interface CallOptions {
  /** Whether a header names the user. */
  namesUser?: boolean;
  signal?: AbortSignal | undefined;
  /** After which the request has no answer; without it, the browser decides. */
  limit_ms?: number;
}

async function call<T>(
  method: string,
  url: string,
  body?: unknown,
  { namesUser = false, signal, limit_ms }: CallOptions = {},
): Promise<T> {
  const response = await fetch(url, {
    method,
    signal: signal ?? (limit_ms === undefined ? null : AbortSignal.timeout(limit_ms)),
    headers: {
      ...(body === undefined ? {} : { 'content-type': body instanceof Blob ? 'text/plain' : 'application/json' }),
      ...(namesUser && identity.user !== undefined ? { 'x-user': identity.user } : {}),
    },
    ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    reportConnection(false);
    throw new ApiError(NO_ANSWER);
  });
  // A proxy's error page is not JSON: then the message names the status.
  const answer = (await response.json().catch(() => null)) as unknown;
  const isAnswered = !isOfProxy(response.status, answer);
  reportConnection(isAnswered);
  if (!isAnswered) throw new ApiError(NO_ANSWER);
  if (response.status === 204) return undefined as T;
  if (REFUSALS.includes(response.status) && url !== SESSION) identity.load();
  if (!response.ok) throw failure(answer, response.status, response.headers.get('retry-after'));
  if (answer === null) throw new ApiError('The server sent an incomplete answer.');
  return answer as T;
}

export const NO_ANSWER = 'The server does not answer. Is it running?';

function failure(answer: unknown, status: number, retryAfter: string | null): ApiError {
  const { error, ...details } = (answer ?? {}) as ErrorDetails & { error?: string };
  const message = error ?? `The server answered ${status}.`;
  return new ApiError(message, status, toSeconds(retryAfter), details);
}

/** The seconds of a Retry-After; null for a date, which proxies may send: their clock is not known. */
function toSeconds(retryAfter: string | null): number | null {
  const seconds = Number(retryAfter || NaN);
  return Number.isFinite(seconds) ? seconds : null;
}

/** A request with the user for whom it is made, if the page names one. */
const withUser = <T extends object>(request: T): T & { user?: string } =>
  identity.user === undefined ? request : { ...request, user: identity.user };

/** Feedback as it is sent now. Sent again, it must stay the same, whoever the page speaks for then. */
export const completeFeedback = (feedback: FeedbackItem): FeedbackItem => withUser(feedback);

/** Upload a large body and report the progress, which `fetch` cannot. */
function upload<T>(url: string, body: Blob, onProgress: (share: number) => void, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', url);
    request.responseType = 'json';
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onload = () => {
      const { status } = request;
      const answer = request.response as unknown;
      if (status < 300 && answer !== null) resolve(answer as T);
      else reject(failure(answer, status, request.getResponseHeader('retry-after')));
    };
    request.onerror = () => {
      reportConnection(false);
      reject(new ApiError(NO_ANSWER));
    };
    request.onabort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', () => request.abort());
    request.send(body);
  });
}

const V1 = `${BASE_PATH}v1`;
const SESSION = `${V1}/session`;

const pathOf = (name: string) => `${V1}/models/${encodeURIComponent(name)}`;

const LIMITED: CallOptions = { limit_ms: 30_000 }; // other tabs wait while the queue sends

export const sessionApi: SessionApi = {
  load: () => call<SessionAnswer>('GET', SESSION, undefined, LIMITED),
  signIn: (key) => call<SessionAnswer>('POST', SESSION, { key }),
  signOut: () => call<SessionAnswer>('DELETE', SESSION),
};

/** A conversation that somebody shared by a link. */
export const loadShared = (shareId: string) =>
  call<SharedConversation>('GET', `${V1}/shared/${encodeURIComponent(shareId)}`);

export const listModels = async () => (await call<{ data: ModelCard[] }>('GET', `${V1}/models`)).data;

function listen(url: string, onEvent: (event: ServerEvent) => void, onDisconnect: () => void): EventSource {
  const source = new EventSource(url);
  for (const type of EVENT_TYPES)
    source.addEventListener(type, (message: MessageEvent) =>
      onEvent({ type, ...JSON.parse(message.data as string) } as ServerEvent),
    );
  source.onerror = () => {
    reportConnection(false);
    onDisconnect();
  };
  return source;
}

function keepListening(url: () => Promise<string>, onEvent: (event: ServerEvent) => void, onDisconnect: () => void) {
  let source: EventSource | undefined;
  let reopening: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;

  const open = () => url().then(listenTo, reopenLater);
  const listenTo = (address: string) => {
    if (!stopped) source = listen(address, onEvent, broken);
  };
  // The browser reconnects by itself, but gives up when a starting server answers with an error.
  const broken = () => {
    if (source?.readyState !== EventSource.CLOSED) return onDisconnect();
    identity.load(); // perhaps: the status cannot be read
    reopenLater();
  };
  const reopenLater = () => {
    onDisconnect();
    if (!stopped) reopening = setTimeout(() => void open(), REOPEN_MS);
  };

  void open();
  return () => {
    stopped = true;
    clearTimeout(reopening);
    source?.close();
  };
}

function versionPage(model: string, limit: number, before?: number): Promise<VersionPage> {
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

const queuedUrl = (model: string, id: string) => `${pathOf(model)}/feedback/${encodeURIComponent(id)}`;

/** The requests of the queue: what it sends is complete. */
export const queueApi: QueueApi = {
  give: async (model, feedback) =>
    (await call<{ receipts: [Receipt] }>('POST', `${pathOf(model)}:feedback`, { feedback: [feedback] }, LIMITED))
      .receipts[0],
  retract: (model, id) => call('DELETE', queuedUrl(model, id), undefined, LIMITED),
  outcome: (model, id) => call('GET', queuedUrl(model, id), undefined, LIMITED),
};

const TOO_LARGE = 413;

/** Raised for a file that is too large to keep. etag: its checksum. */
export class FileTooLarge extends ApiError {
  constructor(readonly etag: string) {
    super('The file is too large to keep.', TOO_LARGE);
  }
}

const NOT_MODIFIED = 304;

/** A file for the time without the service; null where it has the checksum `etag`. */
async function download(url: string, etag: string, max_bytes: number): Promise<ExportedFile | null> {
  const headers = etag === '' ? {} : { 'if-none-match': etag };
  const response = await fetch(url, { headers, cache: 'no-store' }).catch(() => {
    throw new ApiError(NO_ANSWER);
  });
  if (response.status === NOT_MODIFIED) return null;
  if (!response.ok) throw failure(await response.json().catch(() => null), response.status, null);
  const found = response.headers.get('etag') ?? '';
  if (Number(response.headers.get('content-length')) > max_bytes) {
    await response.body?.cancel();
    throw new FileTooLarge(found);
  }
  const file = new Uint8Array(await response.arrayBuffer());
  if (file.length > max_bytes) throw new FileTooLarge(found); // it was sent compressed
  return {
    file,
    etag: found,
    version: response.headers.get('x-model-version') ?? '',
  };
}

/** What a classifier has learned. */
export const learnerFileApi: ExportApi = {
  exported: (model, version, etag, max_bytes) => {
    const query = new URLSearchParams({ format: 'learner' });
    const url = `${pathOf(model)}/versions/${encodeURIComponent(version)}/export?${query}`;
    return download(url, etag, max_bytes);
  },
};

/** What a classifier has learned since a version. */
export const learnerDeltaApi: DeltaApi = {
  changed: async (model, since, version, max_bytes) => {
    const query = new URLSearchParams({ from: since });
    const url = `${pathOf(model)}/versions/${encodeURIComponent(version)}/delta?${query}`;
    const found = await download(url, '', max_bytes);
    if (found === null) throw new ApiError('The server sent no delta.');
    return { delta: found.file, version: found.version };
  },
};

/** The replies that a chat gives, whatever the version. */
export const repertoireFileApi: ExportApi = {
  exported: (model, _version, etag, max_bytes) => download(`${pathOf(model)}/replies:offline`, etag, max_bytes),
};

/** The text encoder of a model. */
export const encoderApi = {
  address: (model: string) => `${pathOf(model)}/encoder`,
  describe: (model: string) => call<EncoderManifest>('GET', encoderApi.address(model)),
  /** A file from one of its bytes on; the whole one where the service sends no parts. */
  open: async (url: string, from: number, signal: AbortSignal): Promise<Response> => {
    const headers: HeadersInit = from === 0 ? {} : { range: `bytes=${from}-` };
    const response = await fetch(url, { headers, signal, cache: 'no-store' }).catch((error: unknown) => {
      if (signal.aborted) throw error;
      reportConnection(false);
      throw new ApiError(NO_ANSWER);
    });
    const { ok, status } = response;
    if (isOfProxy(status, null)) throw new ApiError(NO_ANSWER);
    if (!ok) throw failure(await response.json().catch(() => null), status, null);
    return response;
  },
};

const OF_USER: CallOptions = { namesUser: true };

export function createChatApi(name: () => Promise<string>): Api {
  const model = async () => pathOf(await name());
  const conversationUrl = async (id: string) => `${await model()}/conversations/${encodeURIComponent(id)}`;
  const replyUrl = async (id: string) => `${await model()}/replies/${encodeURIComponent(id)}`;

  return {
    ...createApi(name),
    frozen: async () => (await versionPage(await model(), 1)).frozen !== null,
    explain: async (id) => call('GET', `${await model()}/predictions/${encodeURIComponent(id)}/why`),
    conversations: async (words, before = null) => {
      const query = new URLSearchParams({ q: words, ...(before === null ? {} : { before }) });
      return call('GET', `${await model()}/conversations?${query}`, undefined, OF_USER);
    },
    conversation: async (id) => call('GET', await conversationUrl(id), undefined, OF_USER),
    changeConversation: async (id, change) => call('PATCH', await conversationUrl(id), change, OF_USER),
    shareConversation: async (id, until) =>
      call('POST', `${await conversationUrl(id)}:share`, until === null ? undefined : { until }, OF_USER),
    unshareConversation: async (id) => call('DELETE', `${await conversationUrl(id)}:share`, undefined, OF_USER),
    deleteConversation: async (id) => call('DELETE', await conversationUrl(id), undefined, OF_USER),
    retire: async (id) => (await call<{ offset: number }>('DELETE', await replyUrl(id))).offset,
    restore: async (id) => (await call<{ offset: number }>('PUT', await replyUrl(id), { active: true })).offset,
  };
}

export function createDrawApi(name: string): DrawApi {
  const examplesUrl = `${pathOf(name)}/examples`;
  return {
    ...createApi(async () => name),
    examples: (of, limit) => {
      const url = `${examplesUrl}?${new URLSearchParams({ of, limit: String(limit) })}`;
      return call<Taught>('GET', url, undefined, OF_USER);
    },
    forgetClass: async (label) => {
      const url = `${examplesUrl}?${new URLSearchParams({ label })}`;
      return (await call<{ count: number }>('DELETE', url, undefined, OF_USER)).count;
    },
    teachAgain: async ({ prediction_id, input }, label, id) => {
      const subject = prediction_id === null ? { input } : { prediction_id };
      const feedback = [withUser({ id, ...subject, label })];
      await call('POST', `${pathOf(name)}:feedback`, { feedback });
    },
    classes: async () => (await call<{ labels: ClassInfo[] }>('GET', `${pathOf(name)}/labels`)).labels,
    curve: () => call('GET', `${pathOf(name)}/curve`),
  };
}

function findReplies(
  model: string,
  { limit, after, ...words }: ReplyQuery,
  signal?: AbortSignal,
): Promise<RepliesAnswer> {
  const place = after == null ? {} : { after };
  const query = new URLSearchParams({ ...words, limit: String(limit), ...place });
  return call('GET', `${model}/replies?${query}`, undefined, { signal });
}

export function createRepertoireApi(name: string): RepertoireApi {
  const model = pathOf(name);
  const replyUrl = (id: string) => `${model}/replies/${encodeURIComponent(id)}`;
  return {
    ...createApi(async () => name),
    replies: (query, signal) => findReplies(model, query, signal),
    replyDetails: (id) => call('GET', replyUrl(id)),
    addReply: (reply) => call('POST', `${model}/replies`, reply),
    editReply: (id, edit) => call('PUT', replyUrl(id), edit),
    forgetExample: (id, offset) => call('DELETE', `${replyUrl(id)}/examples/${offset}`),
    unanswered: async () => (await call<{ clusters: OpenCluster[] }>('GET', `${model}/unanswered`)).clusters,
    importReplies: (file, format, { dry_run, skip_bad }) => {
      const query = new URLSearchParams({
        format,
        dry_run: String(dry_run),
        skip_bad: String(skip_bad),
      });
      return call('POST', `${model}/replies:import?${query}`, file);
    },
    dismiss: (predictions) => call('POST', `${model}/unanswered:dismiss`, { predictions }),
    undoDismissal: (decision) => call('POST', `${model}/inbox:undo`, { decision }),
    exportOf: (format) => `${model}/replies:export?${new URLSearchParams({ format })}`,
  };
}

export function createInboxApi(name: string): InboxApi {
  const model = pathOf(name);
  const own = createApi<RankerPrediction, string>(async () => name);
  return {
    events: own.events,
    likelyReplies: async (...texts) => {
      const { predictions } = await own.predict({ instances: texts, record: false });
      return mergeByScore(predictions.map(({ candidates }) => candidates));
    },
    inbox: (query) => call('GET', `${model}/inbox?${new URLSearchParams({ ...query })}`),
    count: () => call('GET', `${model}/inbox:count`),
    decide: (request) => call('POST', `${model}/inbox:decide`, request),
    undo: (decision) => call('POST', `${model}/inbox:undo`, { decision }),
    assign: (ids, assignee) => call('POST', `${model}/inbox:assign`, { ids, assignee }),
    findReplies: async (q, limit, signal) => (await findReplies(model, { q, show: 'given', limit }, signal)).replies,
  };
}

export function createLearningApi(name: string): LearningApi {
  const model = pathOf(name);
  return {
    ...createApi(async () => name),
    curve: () => call('GET', `${model}/curve`),
    judgedUntil: async (offsets) => {
      const query = new URLSearchParams(offsets.map((offset) => ['offset', String(offset)]));
      const url = `${model}/curve/judged?${query}`;
      return (await call<{ judged: (number | null)[] }>('GET', url)).judged;
    },
    health: () => call('GET', `${model}/health`),
    driftChanges: async () => (await call<{ changes: DriftChange[] }>('GET', `${model}/drift`)).changes,
    versionPage: (limit, before) => versionPage(model, limit, before),
    changes: (version, since) => {
      const query = new URLSearchParams({ ...(since === null ? {} : { since }) });
      return call('GET', `${model}/versions/${encodeURIComponent(version)}/changes?${query}`);
    },
    refused: () => call('GET', `${model}/refused`),
    operator: operatorApi(model),
  };
}

function operatorApi(model: string): OperatorApi {
  const labelUrl = (name: string) => `${model}/version_labels/${encodeURIComponent(name)}`;
  return {
    quarantines: async () => (await call<{ quarantines: Quarantine[] }>('GET', `${model}/quarantine`)).quarantines,
    rollBack: (version, freeze) =>
      call('POST', `${model}:rollback`, {
        version,
        ...(freeze === null ? {} : { freeze: true, reason: freeze }),
      }),
    freeze: (reason) => call('POST', `${model}:freeze`, { reason }),
    thaw: () => call('POST', `${model}:thaw`),
    label: (name, version) => call('PUT', labelUrl(name), { version }),
    unlabel: (name) => call('DELETE', labelUrl(name)),
    endQuarantine: (outcome) => call('POST', `${model}/quarantine:end`, { outcome }),
  };
}

const rangeQuery = ({ until, ...range }: UsageRange) => ({
  ...range,
  ...(until === null ? {} : { until }),
});

export function createUsageApi(name: string): UsageApi {
  const usage = `${pathOf(name)}/usage`;
  return {
    usage: (range, by) => call('GET', `${usage}?${new URLSearchParams({ ...rangeQuery(range), by })}`),
    topQuestions: (range) => call('GET', `${usage}/questions?${new URLSearchParams(rangeQuery(range))}`),
  };
}

export function createAlertsApi(name: string): AlertsApi {
  const alerts = `${pathOf(name)}/alerts`;
  return {
    list: () => call('GET', alerts),
    test: async () => (await call<{ endpoints: TestedEndpoint[] }>('POST', `${alerts}:test`)).endpoints,
  };
}

export const createDevicesApi = (): DevicesApi => ({ get: () => call('GET', `${V1}/devices`) });

/** A query for reports in the language of the pages. */
const inLanguage = (query: Record<string, string> = {}) => new URLSearchParams({ ...query, language });

export function createReportApi(name: string): ReportApi {
  const report = `${pathOf(name)}/report`;
  return {
    events: createApi(async () => name).events,
    state: () => call('GET', `${report}/state?${inLanguage()}`),
    generate: () => call('POST', `${report}?${inLanguage()}`),
    cancel: async () => void (await call('DELETE', report)),
    page: (until) => `${report}?${inLanguage({ until: String(until) })}`,
  };
}

/** A name that is also a pattern stands for itself. */
const literally = (name: string) => name.replace(/[*?[]/g, '[$&]');

function addColumns(query: URLSearchParams, { drop, features }: ColumnChoice) {
  for (const name of drop) query.append('drop', literally(name));
  for (const name of features) query.append('feature', literally(name));
}

export const replaysApi: ReplaysApi = {
  list: () => call('GET', `${V1}/replays?${inLanguage()}`),
  recogniseColumns: (start, name, label, columns) => {
    const query = new URLSearchParams({ name, label });
    addColumns(query, columns);
    return upload(`${V1}/replays:columns?${query}`, start, () => {}, new AbortController().signal);
  },
  send: (log, { models, label, maxBadRatio, columns }, onProgress, signal) => {
    const query = new URLSearchParams({
      name: log.name,
      label,
      max_bad_ratio: String(maxBadRatio),
    });
    for (const model of models) query.append('model', model);
    addColumns(query, columns);
    return upload(`${V1}/replays?${query}`, log, onProgress, signal);
  },
  drop: async (id) => void (await call('DELETE', `${V1}/replays/${id}`)),
  page: (id) => `${V1}/replays/${id}/report?${inLanguage()}`,
};
