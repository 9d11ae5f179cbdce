/* The requests of the repertoire page, for a ranker. Changes return their offset. */

import { call } from '../http';
import type {
  DecideAnswer,
  EditReply,
  ImportAnswer,
  NewReply,
  OpenCluster,
  RankerPrediction,
  Receipt,
  RepliesAnswer,
  ReplyDetails,
  SavedReply,
} from '../schema';
import { createApi, pathOf } from './model';

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

/** A page of the replies that fit. model: its URL. */
export function findReplies(model: string, { limit, after, ...words }: ReplyQuery, signal?: AbortSignal) {
  const place = after == null ? {} : { after };
  const query = new URLSearchParams({ ...words, limit: String(limit), ...place });
  return call<RepliesAnswer>('GET', `${model}/replies?${query}`, undefined, { signal });
}

export type RepertoireApi = ReturnType<typeof createRepertoireApi>;

export function createRepertoireApi(name: string) {
  const model = pathOf(name);
  const replyUrl = (id: string) => `${model}/replies/${encodeURIComponent(id)}`;
  return {
    ...createApi<RankerPrediction, string>(async () => name),
    replies: (query: ReplyQuery, signal?: AbortSignal) => findReplies(model, query, signal),
    replyDetails: (id: string) => call<ReplyDetails>('GET', replyUrl(id)),
    addReply: (reply: NewReply) => call<SavedReply>('POST', `${model}/replies`, reply),
    editReply: (id: string, edit: EditReply) => call<SavedReply>('PUT', replyUrl(id), edit),
    forgetExample: (id: string, offset: number) => call<Receipt>('DELETE', `${replyUrl(id)}/examples/${offset}`),
    unanswered: async () => (await call<{ clusters: OpenCluster[] }>('GET', `${model}/unanswered`)).clusters,
    importReplies: (
      file: Blob,
      format: ImportFormat,
      { dry_run, skip_bad }: { dry_run: boolean; skip_bad: boolean },
    ) => {
      const query = new URLSearchParams({ format, dry_run: String(dry_run), skip_bad: String(skip_bad) });
      return call<ImportAnswer>('POST', `${model}/replies:import?${query}`, file);
    },
    /** Let questions that need no reply stay away. predictions: one of each question at least. */
    dismiss: (predictions: string[]) => call<DecideAnswer>('POST', `${model}/unanswered:dismiss`, { predictions }),
    undoDismissal: (decision: string) => call('POST', `${model}/inbox:undo`, { decision }),
    /** The URL of the repertoire as a file. */
    exportOf: (format: FileFormat) => `${model}/replies:export?${new URLSearchParams({ format })}`,
  };
}
