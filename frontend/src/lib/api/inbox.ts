/* The requests of the inbox. */

import { call } from '../http';
import type { Candidate, DecideAnswer, DecideRequest, InboxAnswer, InboxCount, RankerPrediction } from '../schema';
import { createApi, pathOf } from './model';
import { findReplies } from './repertoire';

/** What the inbox is asked for. */
export interface InboxQuery {
  state: 'open' | 'done';
  sort: 'newest' | 'largest';
  assignee?: string;
  q?: string;
  only?: 'waiting' | 'thumb_down' | 'new_reply';
}

export type InboxApi = ReturnType<typeof createInboxApi>;

export function createInboxApi(name: string) {
  const model = pathOf(name);
  const own = createApi<RankerPrediction, string>(async () => name);
  return {
    events: own.events,
    inbox: (query: InboxQuery) => call<InboxAnswer>('GET', `${model}/inbox?${new URLSearchParams({ ...query })}`),
    count: () => call<InboxCount>('GET', `${model}/inbox:count`),
    decide: (request: DecideRequest) => call<DecideAnswer>('POST', `${model}/inbox:decide`, request),
    undo: (decision: string) => call('POST', `${model}/inbox:undo`, { decision }),
    assign: (ids: string[], assignee: string | null) => call('POST', `${model}/inbox:assign`, { ids, assignee }),
    /** The first replies with these words that are given. */
    findReplies: async (q: string, limit: number, signal: AbortSignal) =>
      (await findReplies(model, { q, show: 'given', limit }, signal)).replies,
    /** The replies that the model finds most likely for any of the texts, the best first. The texts are not recorded. */
    likelyReplies: async (...texts: string[]) => {
      const { predictions } = await own.predict({ instances: texts, record: false });
      return mergeByScore(predictions.map(({ candidates }) => candidates));
    },
  };
}

/** Each reply once, with its best score, the best first. lists: the candidates for each text. */
export function mergeByScore(lists: readonly (readonly Candidate[])[]): Candidate[] {
  const best = new Map<string, Candidate>();
  for (const one of lists.flat()) if (one.score > (best.get(one.id)?.score ?? -Infinity)) best.set(one.id, one);
  return [...best.values()].sort((a, b) => b.score - a.score);
}
