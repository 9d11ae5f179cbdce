/* The chat without the service: this device answers from the replies that it keeps, and opinions wait.

     predict        the service's reply; without it, that of `LocalReplies`, which no conversation stores
     feedback       about a reply of the service: by its prediction. About one of this device: by the question and the reply
*/

import { ApiError, NO_ANSWER, type Api, type ChatInstance, type Offlineable } from '../api';
import type { FeedbackRequest, PredictRequest, PredictResponse, Reply } from '../schema';
import { FeedbackQueue, type Described } from './feedback';
import type { LocalModel } from './local_model.svelte';
import type { Offline } from './offline.svelte';
import { reach } from './reach';
import type { LocalReplies } from './replies';
import type { ItemKind } from './store';

const MAX_REMEMBERED = 500; // answers, about which opinions may come

/** An answer that was given on this page. */
interface GivenAnswer {
  instance: ChatInstance;
  reply: Reply | null;
  isLocal: boolean;
  /** Of a local one: the answer before it in the conversation, as the service knows it. */
  after: string | null | undefined;
}

type ChatRequest = PredictRequest<ChatInstance>;

export function createOfflineChatApi(
  online: Api,
  offline: Offline,
  local: LocalModel<LocalReplies>,
): Offlineable<Api> {
  const { queue, connection, newId } = offline;
  const answers = new Map<string, GivenAnswer>();

  function remember(id: string, answer: GivenAnswer) {
    answers.set(id, answer);
    for (const oldest of answers.keys()) {
      if (answers.size <= MAX_REMEMBERED) break;
      answers.delete(oldest);
    }
  }

  /** The service does not know the answers of this device: a question follows the last one that it knows. */
  function toKnown({ after, ...request }: ChatRequest): ChatRequest {
    const before = answers.get(after ?? '');
    const known = before?.isLocal ? before.after : after;
    return known == null ? request : { ...request, after: known };
  }

  async function predict(request: ChatRequest, signal?: AbortSignal): Promise<PredictResponse> {
    const known = toKnown(request);
    return reach(
      connection,
      async () => {
        const answer = await online.predict(known, signal);
        const [id] = answer.prediction_ids;
        const reply = answer.predictions[0]?.reply ?? null;
        const instance = request.instances[0]!;
        if (id) remember(id, { instance, reply, isLocal: false, after: undefined });
        return answer;
      },
      async (error) => answerLocally(request, known.after, error),
    );
  }

  function answerLocally(
    { instances, exclude, record }: ChatRequest,
    after: string | null | undefined,
    error: ApiError,
  ): PredictResponse {
    const { learner, version } = local;
    if (learner === null) throw error;
    const asked: ChatInstance[] = instances;
    const predictions = asked.map((instance) => answer(learner, instance, exclude ?? []));
    const prediction_ids = record ? asked.map(() => newId()) : [];
    for (const [place, id] of prediction_ids.entries()) {
      const { reply } = predictions[place]!;
      remember(id, { instance: asked[place]!, reply, isLocal: true, after });
    }
    return {
      predictions,
      prediction_ids,
      model_version: version ?? '',
      learned_until: 0,
      isLocal: true,
    };
  }

  function describe(feedback: FeedbackRequest): Described {
    const { id, prediction_id, ...content } = feedback;
    const given = answers.get(prediction_id);
    const title = titleOf(feedback, given);
    const kind = kindOf(feedback);
    if (given === undefined) return { kind, title, body: feedback, example: null, isLocal: false };
    const opinion = { kind, title, example: exampleOf(feedback, given) };
    if (!given.isLocal) return { ...opinion, body: feedback, isLocal: false };
    const body = { ...content, id, input: given.instance, ...judged(feedback, given) };
    return { ...opinion, body, isLocal: true };
  }

  /** What a thumb judges. A reply that only this browser knows is taught by its text. */
  function judged(feedback: FeedbackRequest, { reply }: GivenAnswer) {
    if (!('reward' in feedback) || reply === null) return {};
    const isKnown = local.learner?.knows(reply.id) ?? true;
    if (isKnown || feedback.reward === 0) return { choice: reply.id };
    return { reward: null, correction: reply.text };
  }

  const feedback = new FeedbackQueue({
    online,
    queue,
    local,
    connection,
    newId,
    describe,
    exampleOf: () => null, // of earlier visits, this device knows only what is in the queue
  });

  return {
    ...online,
    predict,
    giveFeedback: feedback.giveFeedback,
    retract: feedback.retract,
    explain: async (id) => {
      if (answers.get(id)?.isLocal) throw new ApiError(NO_ANSWER);
      return online.explain(id);
    },
  };
}

const textOf = (instance: ChatInstance) =>
  typeof instance === 'string' ? instance : instance.text;

/** A follow-up that says too little by itself is read with the question before it. */
function answer(learner: LocalReplies, instance: ChatInstance, exclude: readonly string[]) {
  const alone = learner.answer(textOf(instance), exclude);
  const before = typeof instance === 'string' ? undefined : instance.previous.at(-1);
  if (!alone.abstained || before === undefined) return alone;
  const together = learner.answer(`${before} ${textOf(instance)}`, exclude);
  return together.abstained ? alone : together;
}

function kindOf(feedback: FeedbackRequest): ItemKind {
  if ('reward' in feedback) return feedback.reward === 1 ? 'good' : 'wrong';
  return 'correction';
}

function titleOf(feedback: FeedbackRequest, given: GivenAnswer | undefined): string {
  if ('correction' in feedback) return feedback.correction;
  return given?.reply?.text ?? (given ? textOf(given.instance) : '');
}

function exampleOf(feedback: FeedbackRequest, { instance, reply }: GivenAnswer) {
  const input = textOf(instance);
  if ('correction' in feedback)
    return { input, label: feedback.correction, reward: 1, text: feedback.correction };
  if ('label' in feedback) return { input, label: feedback.label, reward: 1 };
  return reply && { input, label: reply.id, reward: feedback.reward };
}
