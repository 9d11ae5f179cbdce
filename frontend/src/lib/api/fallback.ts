/* The requests for answers of language models, to questions that the chat model has no reply to.

   ask -> chat.completion.chunk, chunk ... [DONE]      the id of the chunks is the router's prediction
*/

import { ApiError, call, openStream } from '../http';
import type { RouteReasons, StoredGeneratedAnswers } from '../schema';
import { createApi, OF_USER, pathOf } from './model';

const END = '[DONE]';
const CUT = 'The answer ended too early.';

/** A piece of an answer. id: of the prediction that feedback refers to. */
export interface Piece {
  id: string;
  text: string;
}

/** An answer that has begun. Reading the pieces rejects where it is cut. */
export interface BegunAnswer {
  route: string;
  pieces: AsyncIterable<Piece>;
}

interface Chunk {
  id: string;
  choices?: { delta?: { content?: string | null } }[];
  error?: { message?: string };
}

export type FallbackApi = ReturnType<typeof createFallbackApi>;

/** chat, router: return the names of the models; called for every request. */
export function createFallbackApi(chat: () => Promise<string>, router: () => Promise<string>) {
  return {
    ...createApi<never, never>(router),
    /** question: the chat model's prediction. exclude: routes that have answered already. */
    ask: async (question: string, exclude: string[], signal: AbortSignal): Promise<BegunAnswer> => {
      const url = `${pathOf(await chat())}/predictions/${encodeURIComponent(question)}/answers`;
      const { headers, events } = await openStream(url, { exclude }, signal);
      return { route: headers.get('x-route') ?? '', pieces: readPieces(events) };
    },
    /** The answers in a conversation. */
    answersOf: async (conversation: string) => {
      const url = `${pathOf(await chat())}/conversations/${encodeURIComponent(conversation)}/answers`;
      return call<StoredGeneratedAnswers>('GET', url, undefined, OF_USER);
    },
    explain: async (predictionId: string) =>
      call<RouteReasons>('GET', `${pathOf(await router())}/predictions/${encodeURIComponent(predictionId)}/route`),
  };
}

export async function* readPieces(events: AsyncIterable<string>): AsyncGenerator<Piece> {
  for await (const data of events) {
    if (data === '') continue;
    if (data === END) return;
    const { id, choices, error } = JSON.parse(data) as Chunk;
    if (error) throw new ApiError(error.message ?? CUT);
    yield { id, text: choices?.[0]?.delta?.content ?? '' };
  }
  throw new ApiError(CUT);
}
