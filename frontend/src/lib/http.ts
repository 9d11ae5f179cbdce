/* How the page asks the service: requests, uploads, downloads and events, and the errors of those that fail.

   lib/api -> call, openStream, upload, download, keepListening -> fetch / XMLHttpRequest / EventSource
                 |-> ApiError        |-> whether the service answers -> Connection
   Session ----> the user whom requests name

   No URL of the service is here: those are in lib/api.
*/

import type { Cause } from './schema';
import { EVENT_TYPES, type ServerEvent } from './ui/events';

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

const TOO_LARGE = 413;

/** Raised for a file that is too large to keep. etag: its checksum. */
export class FileTooLarge extends ApiError {
  constructor(readonly etag: string) {
    super('The file is too large to keep.', TOO_LARGE);
  }
}

export const NO_ANSWER = 'The server does not answer. Is it running?';

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

export interface CallOptions {
  /** Whether a header names the user. */
  namesUser?: boolean;
  signal?: AbortSignal | undefined;
  /** After which the request has no answer; without it, the browser decides. */
  limit_ms?: number;
  /** Whether it asks who sends it: where it is refused, asking again would not end. */
  isOfSession?: boolean;
}

/** The response to a request. signal: by which the page gives the request up; then it rejects with the signal's error. */
const reach = (url: string, init: RequestInit, signal?: AbortSignal) =>
  fetch(url, init).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    reportConnection(false);
    throw new ApiError(NO_ANSWER);
  });

export async function call<T>(
  method: string,
  url: string,
  body?: unknown,
  { namesUser = false, signal, limit_ms, isOfSession = false }: CallOptions = {},
): Promise<T> {
  const init: RequestInit = {
    method,
    signal: signal ?? (limit_ms === undefined ? null : AbortSignal.timeout(limit_ms)),
    headers: {
      ...(body === undefined ? {} : { 'content-type': body instanceof Blob ? 'text/plain' : 'application/json' }),
      ...(namesUser && identity.user !== undefined ? { 'x-user': identity.user } : {}),
    },
    ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
  };
  const response = await reach(url, init, signal);
  // A proxy's error page is not JSON: then the message names the status.
  const answer = (await response.json().catch(() => null)) as unknown;
  const isAnswered = !isOfProxy(response.status, answer);
  reportConnection(isAnswered);
  if (!isAnswered) throw new ApiError(NO_ANSWER);
  if (response.status === 204) return undefined as T;
  if (REFUSALS.includes(response.status) && !isOfSession) identity.load();
  if (!response.ok) throw failure(answer, response.status, response.headers.get('retry-after'));
  if (answer === null) throw new ApiError('The server sent an incomplete answer.');
  return answer as T;
}

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
export const withUser = <T extends object>(request: T): T & { user?: string } =>
  identity.user === undefined ? request : { ...request, user: identity.user };

/** Upload a large body and report the progress, which `fetch` cannot. */
export function upload<T>(
  url: string,
  body: Blob,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<T> {
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

/** An answer that comes piece by piece. events: the data of each server-sent event. */
export interface Stream {
  headers: Headers;
  events: AsyncIterable<string>;
}

/** Ask for a stream. signal: by which the page gives it up; then it rejects with the signal's error. */
export async function openStream(url: string, body: unknown, signal: AbortSignal): Promise<Stream> {
  const headers = { 'content-type': 'application/json' };
  const response = await reach(url, { method: 'POST', signal, headers, body: JSON.stringify(body) }, signal);
  if (response.ok && response.body) return { headers: response.headers, events: readEvents(response.body) };
  const answer = (await response.json().catch(() => null)) as unknown;
  if (isOfProxy(response.status, answer)) throw new ApiError(NO_ANSWER);
  if (REFUSALS.includes(response.status)) identity.load();
  throw failure(answer, response.status, response.headers.get('retry-after'));
}

const END_OF_EVENT = /\r?\n\r?\n/;

async function* readEvents(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value).split(END_OF_EVENT);
      rest = events.pop() ?? '';
      for (const event of events) yield dataOf(event);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

const dataOf = (event: string): string =>
  event
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).trimStart())
    .join('\n');

const REOPEN_MS = 3000;

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

/** Listen to events, and again after the connection broke. Returns a function that stops it. */
export function keepListening(
  url: () => Promise<string>,
  onEvent: (event: ServerEvent) => void,
  onDisconnect: () => void,
) {
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

const NOT_MODIFIED = 304;

/** A file of the service. version: that answers from it. etag: its checksum. */
export interface ExportedFile {
  file: Uint8Array;
  etag: string;
  version: string;
}

/** A file for the time without the service; null where it has the checksum `etag`. */
export async function download(url: string, etag: string, max_bytes: number): Promise<ExportedFile | null> {
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

/** A file from one of its bytes on; the whole one where the service sends no parts. */
export async function openFile(url: string, from: number, signal: AbortSignal): Promise<Response> {
  const headers: HeadersInit = from === 0 ? {} : { range: `bytes=${from}-` };
  const response = await reach(url, { headers, signal, cache: 'no-store' }, signal);
  const { ok, status } = response;
  if (isOfProxy(status, null)) throw new ApiError(NO_ANSWER);
  if (!ok) throw failure(await response.json().catch(() => null), status, null);
  return response;
}

/** Whether something answers there. */
export const isAnswering = (url: string) =>
  fetch(url, { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  );
