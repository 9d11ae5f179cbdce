/* The requests of the chat. */

import { call } from '../http';
import type {
  ConversationChange,
  ConversationPage,
  ConversationSummary,
  ExplanationAnswer,
  RankerPrediction,
  SharedConversation,
  StoredConversation,
} from '../schema';
import { createApi, OF_USER, pathOf, V1, versionPage } from './model';

/** A question; a short follow-up is read with the questions before it. */
export type ChatInstance = string | { text: string; previous: string[] };

export type Api = ReturnType<typeof createChatApi>;

/** name: returns the name of the model; called for every request. */
export function createChatApi(name: () => Promise<string>) {
  const model = async () => pathOf(await name());
  const conversationUrl = async (id: string) => `${await model()}/conversations/${encodeURIComponent(id)}`;
  const replyUrl = async (id: string) => `${await model()}/replies/${encodeURIComponent(id)}`;

  return {
    ...createApi<RankerPrediction, ChatInstance>(name),
    /** Whether learning is frozen. */
    frozen: async () => (await versionPage(await model(), 1)).frozen !== null,
    explain: async (predictionId: string) =>
      call<ExplanationAnswer>('GET', `${await model()}/predictions/${encodeURIComponent(predictionId)}/why`),
    /** words: to search for; "" for all. */
    conversations: async (words: string, before: string | null = null) => {
      const query = new URLSearchParams({ q: words, ...(before === null ? {} : { before }) });
      return call<ConversationPage>('GET', `${await model()}/conversations?${query}`, undefined, OF_USER);
    },
    conversation: async (id: string) => call<StoredConversation>('GET', await conversationUrl(id), undefined, OF_USER),
    changeConversation: async (id: string, change: ConversationChange) =>
      call<ConversationSummary>('PATCH', await conversationUrl(id), change, OF_USER),
    /** Let everybody who has the link read the conversation as it is now.
        until: the last turn to share; null for the newest. */
    shareConversation: async (id: string, until: string | null) => {
      const body = until === null ? undefined : { until };
      return call<{ share_id: string }>('POST', `${await conversationUrl(id)}:share`, body, OF_USER);
    },
    unshareConversation: async (id: string) =>
      call<void>('DELETE', `${await conversationUrl(id)}:share`, undefined, OF_USER),
    deleteConversation: async (id: string) => call<void>('DELETE', await conversationUrl(id), undefined, OF_USER),
    /** Returns the offset of the change, as `restore` does. */
    retire: async (replyId: string) => (await call<{ offset: number }>('DELETE', await replyUrl(replyId))).offset,
    restore: async (replyId: string) =>
      (await call<{ offset: number }>('PUT', await replyUrl(replyId), { active: true })).offset,
  };
}

/** A conversation that somebody shared by a link. */
export const loadShared = (shareId: string) =>
  call<SharedConversation>('GET', `${V1}/shared/${encodeURIComponent(shareId)}`);
