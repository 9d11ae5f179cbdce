/* The chat without the service: this device answers from the replies that it keeps, and opinions wait.

     predict        the service's reply; without it, that of `LocalReplies`, in a conversation that this browser keeps
     feedback       about a reply of the service: by its prediction. About one of this device: by the question and the reply
*/

import { ApiError, isUnreachable, NO_ANSWER } from '../http';
import type { Offlineable } from '../api/model';
import type { Api, ChatInstance } from '../api/chat';
import type {
  ConversationChange,
  ConversationPage,
  ConversationSummary,
  FeedbackRequest,
  PredictRequest,
  PredictResponse,
  Reply,
  StoredConversation,
} from '../schema';
import { isPartOfService, LocalConversations, merge, type LocalConversation } from './conversations';
import { FeedbackQueue, type Described } from './feedback';
import type { LocalModel } from './local_model.svelte';
import type { Offline } from './offline.svelte';
import { reach } from './reach';
import type { LocalReplies } from './replies';
import type { ItemKind } from './store';

const MAX_REMEMBERED = 500; // answers, about which opinions may come
const CONVERSATION = 'conversation';

/** An answer that was given on this page. */
interface GivenAnswer {
  instance: ChatInstance;
  reply: Reply | null;
  isLocal: boolean;
  /** Of which it is a turn; null for none. */
  conversation: string | null;
  /** Of a local one: the answer before it in the conversation, as the service knows it. */
  after: string | null | undefined;
}

/** The first page of the list, as the service answered it for an owner. */
interface Listed {
  owner: string | null;
  words: string;
  page: ConversationPage;
}

type ChatRequest = PredictRequest<ChatInstance>;

/** whenStarted: resolves when an answer on this device is as good as it can be. */
export function createOfflineChatApi(
  online: Api,
  offline: Offline,
  local: LocalModel<LocalReplies>,
  whenStarted: () => Promise<void>,
): Offlineable<Api> {
  const { queue, connection, newId } = offline;
  const answers = new Map<string, GivenAnswer>();
  const conversations = new LocalConversations(offline.parts(CONVERSATION, local.name));
  let listed: Listed | null = null;

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
    const { owner } = offline;
    const conversation = request.conversation ?? null;
    return reach(
      connection,
      async () => {
        const answer = await online.predict(known, signal);
        const [id] = answer.prediction_ids;
        const reply = answer.predictions[0]?.reply ?? null;
        const instance = request.instances[0]!;
        if (id) remember(id, { instance, reply, isLocal: false, conversation, after: undefined });
        const { after } = request;
        if (id && conversation && after && after !== known.after)
          await conversations.noteFollowing(owner, conversation, id, after);
        return answer;
      },
      async (error) => {
        const answer = await answerLocally(request, known.after, error);
        await keepTurns(owner, request, known.after, answer);
        return answer;
      },
    );
  }

  async function answerLocally(
    { instances, exclude, record, conversation = null }: ChatRequest,
    after: string | null | undefined,
    error: ApiError,
  ): Promise<PredictResponse> {
    await Promise.all([whenStarted(), feedback.whenStored()]);
    const { learner, version } = local;
    if (learner === null) throw error;
    const asked: ChatInstance[] = instances;
    const predictions = await Promise.all(asked.map((instance) => answer(learner, instance, exclude ?? [])));
    const prediction_ids = record ? asked.map(() => newId()) : [];
    for (const [place, id] of prediction_ids.entries()) {
      const { reply } = predictions[place]!;
      remember(id, { instance: asked[place]!, reply, isLocal: true, conversation, after });
    }
    return {
      predictions,
      prediction_ids,
      model_version: version ?? '',
      learned_until: 0,
      isLocal: true,
    };
  }

  async function keepTurns(
    owner: string | null,
    { instances, conversation, after, exclude }: ChatRequest,
    known: string | null | undefined,
    { predictions, prediction_ids, model_version }: PredictResponse,
  ) {
    if (!conversation) return;
    for (const [place, prediction_id] of prediction_ids.entries()) {
      const [instance, { reply, candidates }] = [instances[place]!, predictions[place]!];
      await conversations.add(owner, conversation, {
        prediction_id,
        after: after ?? '',
        question: textOf(instance),
        reply,
        candidates,
        besides: exclude ?? [],
        model_version,
        created_at: new Date().toISOString(),
        feedback: [],
        isLocal: true,
        instance,
        known: known ?? null,
        opinion: null,
      });
    }
  }

  async function listConversations(words: string, before: string | null = null) {
    if (before !== null) return online.conversations(words, before);
    const { owner } = offline;
    const page = await reach(
      connection,
      async () => {
        const found = await online.conversations(words);
        if (owner === offline.owner) listed = { owner, words, page: found };
        return found;
      },
      async (error) => {
        if (listed?.words === words && listed.owner === offline.owner) return listed.page;
        if ((await conversations.list(offline.owner, words)).length === 0) throw error;
        return { conversations: [], next: null };
      },
    );
    const kept = await conversations.list(offline.owner, words); // it may be another by now
    return { ...page, conversations: sortListed(page.conversations, kept) };
  }

  async function openConversation(id: string): Promise<StoredConversation> {
    const kept = await conversations.find(offline.owner, id);
    const found = await orKept<StoredConversation>(kept, () => online.conversation(id), true);
    for (const { prediction_id, instance, reply, known, opinion } of kept?.said ?? []) {
      const given = { instance, reply, isLocal: true, conversation: id, after: known };
      remember(prediction_id, given);
      if (opinion !== null) feedback.resume(prediction_id, opinion);
    }
    return kept === null || found === kept ? found : merge(found, kept);
  }

  async function changeConversation(id: string, change: ConversationChange) {
    const { owner } = offline;
    const kept = await conversations.find(owner, id);
    const changed = await orKept<ConversationSummary>(
      kept && { ...kept, ...change },
      () => online.changeConversation(id, change),
      isOnlyHere(owner, kept),
    );
    await conversations.rename(owner, id, change);
    return changed;
  }

  async function deleteConversation(id: string) {
    const { owner } = offline;
    const kept = await conversations.find(owner, id);
    await orKept<unknown>(kept, () => online.deleteConversation(id), isOnlyHere(owner, kept));
    await conversations.delete(owner, id);
  }

  /** Whether only this browser has a conversation, as far as it knows: it can be changed without the service. */
  function isOnlyHere(owner: string | null, kept: LocalConversation | null): boolean {
    if (kept === null || isPartOfService(kept)) return false;
    const isKept = ({ id }: ConversationSummary) => id === kept.id;
    if (listed?.owner === owner && listed.page.conversations.some(isKept)) return false;
    return ![...answers.values()].some(({ conversation, isLocal }) => conversation === kept.id && !isLocal);
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

  /** About an answer of this device. conversation: of which it is a turn; null for none. */
  async function giveLocally(given: FeedbackRequest, conversation: string | null) {
    const { id, prediction_id } = given;
    if (conversation !== null) await conversations.noteOpinion(offline.owner, conversation, prediction_id, id);
    return feedback.giveFeedback(given);
  }

  return {
    ...online,
    predict,
    conversations: listConversations,
    conversation: openConversation,
    changeConversation,
    deleteConversation,
    giveFeedback: async (given) => {
      const answer = answers.get(given.prediction_id);
      if (!answer?.isLocal) return feedback.giveFeedback(given);
      return feedback.store(giveLocally(given, answer.conversation));
    },
    retract: feedback.retract,
    explain: async (id) => {
      if (answers.get(id)?.isLocal) throw new ApiError(NO_ANSWER);
      return online.explain(id);
    },
  };
}

const NOT_FOUND = 404;

/** What the service answers about a conversation. One that only this browser has is unknown there.
    alsoUnreachable: whether what this browser has is enough where the service does not answer. */
async function orKept<T>(kept: T | null, request: () => Promise<T>, alsoUnreachable = false): Promise<T> {
  try {
    return await request();
  } catch (error) {
    const isUnknown = error instanceof ApiError && error.status === NOT_FOUND;
    if (kept !== null && (isUnknown || (alsoUnreachable && isUnreachable(error)))) return kept;
    throw error;
  }
}

/** Pinned ones first, then the newest. Those that the service lists are known there. */
function sortListed(
  listed: readonly ConversationSummary[],
  kept: readonly ConversationSummary[],
): ConversationSummary[] {
  const known = new Set(listed.map(({ id }) => id));
  const all = [...listed, ...kept.filter(({ id }) => !known.has(id))];
  return all.sort(
    (one, other) =>
      Number(other.pinned) - Number(one.pinned) || Date.parse(other.updated_at) - Date.parse(one.updated_at),
  );
}

const textOf = (instance: ChatInstance) => (typeof instance === 'string' ? instance : instance.text);

/** A follow-up that says too little by itself is read with the question before it. */
async function answer(learner: LocalReplies, instance: ChatInstance, exclude: readonly string[]) {
  const alone = await learner.answer(textOf(instance), exclude);
  const before = typeof instance === 'string' ? undefined : instance.previous.at(-1);
  if (!alone.abstained || before === undefined) return alone;
  const together = await learner.answer(`${before} ${textOf(instance)}`, exclude);
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
  if ('correction' in feedback) return { input, label: feedback.correction, reward: 1, text: feedback.correction };
  if ('label' in feedback) return { input, label: feedback.label, reward: 1 };
  return reply && { input, label: reply.id, reward: feedback.reward };
}
