/* The door to the service, and the only file that knows a URL.

   state classes -> Api -> fetch / EventSource -> /v1/models/{model}...
*/

import { EVENT_TYPES, type ServerEvent } from './events';
import type {
  FeedbackFate,
  FeedbackRequest,
  Learner,
  ModelCard,
  PredictRequest,
  PredictResponse,
  Receipt,
  RolledBack,
  Version,
} from './schema';

export interface Api {
  predict(request: PredictRequest): Promise<PredictResponse>;
  giveFeedback(feedback: FeedbackRequest): Promise<Receipt>;
  feedback(id: string): Promise<FeedbackFate>;
  retract(id: string): Promise<Receipt>;
  versions(): Promise<Version[]>;
  rollBack(version: string): Promise<RolledBack>;
  learner(): Promise<Learner>;
  /** Calls `hear` for each event and `lose` whenever the stream breaks; reopens it by itself. Returns the way to stop. */
  events(hear: (event: ServerEvent) => void, lose: () => void): () => void;
}

export class ApiError extends Error {}

const REOPEN_MS = 3000;

async function call<T>(method: string, url: string, body?: unknown): Promise<T> {
  const response = await fetch(url, {
    method,
    ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  }).catch(() => {
    throw new ApiError('The server does not answer. Is it running?');
  });
  const answer = await response.json().catch(() => ({})); // a proxy's error page is no JSON; the status is told instead
  if (!response.ok) throw new ApiError(answer.error ?? `The server answered ${response.status}.`);
  return answer;
}

async function findRanker(): Promise<string> {
  const { data } = await call<{ data: ModelCard[] }>('GET', '/v1/models');
  const ranker = data.find((model) => model.kind === 'ranker');
  if (!ranker) throw new ApiError('This server has no model that chats: none of its models is a ranker.');
  return `/v1/models/${encodeURIComponent(ranker.id)}`;
}

function listen(url: string, hear: (event: ServerEvent) => void, lose: () => void): EventSource {
  const source = new EventSource(url);
  for (const type of EVENT_TYPES)
    source.addEventListener(type, (message) => hear({ type, ...JSON.parse(message.data) }));
  source.onerror = lose;
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

export function createApi(): Api {
  let found: Promise<string> | undefined;
  // Remembered once it is known; a failure is not, so that the next call asks again.
  const model = () =>
    (found ??= findRanker().catch((error: unknown) => {
      found = undefined;
      throw error;
    }));
  const feedbackUrl = async (id: string) => `${await model()}/feedback/${encodeURIComponent(id)}`;

  return {
    predict: async (request) => call('POST', `${await model()}:predict`, request),
    giveFeedback: async (feedback) => {
      const { receipts } = await call<{ receipts: [Receipt] }>('POST', `${await model()}:feedback`, {
        feedback: [feedback],
      });
      return receipts[0];
    },
    feedback: async (id) => call('GET', await feedbackUrl(id)),
    retract: async (id) => call('DELETE', await feedbackUrl(id)),
    versions: async () => (await call<{ versions: Version[] }>('GET', `${await model()}/versions`)).versions,
    rollBack: async (version) => call('POST', `${await model()}:rollback`, { version }),
    learner: async () => (await call<{ learner: Learner }>('GET', '/readyz')).learner,
    events: (hear, lose) => keepListening(async () => `${await model()}/events`, hear, lose),
  };
}
