/* The requests for the time without the service: files that are kept, and feedback that waited. */

import { ApiError, call, download, openFile, withUser, type ExportedFile } from '../http';
import type { EncoderManifest, FeedbackItem, FeedbackProgress, Receipt } from '../schema';
import { LIMITED, pathOf } from './model';

/** Feedback as it is sent now. Sent again, it must stay the same, whoever the page speaks for then. */
export const completeFeedback = (feedback: FeedbackItem): FeedbackItem => withUser(feedback);

const feedbackUrl = (model: string, id: string) => `${pathOf(model)}/feedback/${encodeURIComponent(id)}`;

/** The requests of the queue. Each can be repeated without another effect; what it sends is complete. */
export type QueueApi = typeof queueApi;

export const queueApi = {
  give: async (model: string, feedback: FeedbackItem) => {
    const body = { feedback: [feedback] };
    return (await call<{ receipts: [Receipt] }>('POST', `${pathOf(model)}:feedback`, body, LIMITED)).receipts[0];
  },
  retract: (model: string, id: string) => call<Receipt>('DELETE', feedbackUrl(model, id), undefined, LIMITED),
  outcome: (model: string, id: string) => call<FeedbackProgress>('GET', feedbackUrl(model, id), undefined, LIMITED),
};

const versionUrl = (model: string, version: string) => `${pathOf(model)}/versions/${encodeURIComponent(version)}`;

export interface ExportApi {
  /** The newest file until a version; null where it is the one with this checksum. Rejects with `FileTooLarge` for
      one of more than `max_bytes`. */
  exported(model: string, version: string, etag: string, max_bytes: number): Promise<ExportedFile | null>;
}

/** What a classifier has learned. */
export const learnerFileApi: ExportApi = {
  exported: (model, version, etag, max_bytes) =>
    download(`${versionUrl(model, version)}/export?${new URLSearchParams({ format: 'learner' })}`, etag, max_bytes),
};

/** The replies that a chat gives, whatever the version. */
export const repertoireFileApi: ExportApi = {
  exported: (model, _version, etag, max_bytes) => download(`${pathOf(model)}/replies:offline`, etag, max_bytes),
};

/** What changed since a version. version: to which it leads. */
export interface Delta {
  delta: Uint8Array;
  version: string;
}

export type DeltaApi = typeof learnerDeltaApi;

/** What a classifier has learned since a version. */
export const learnerDeltaApi = {
  /** Rejects where the service has none: it keeps one of the versions no longer, or the caller may not have it; with
      `FileTooLarge` for one of more than `max_bytes`. */
  changed: async (model: string, since: string, version: string, max_bytes: number): Promise<Delta> => {
    const url = `${versionUrl(model, version)}/delta?${new URLSearchParams({ from: since })}`;
    const found = await download(url, '', max_bytes);
    if (found === null) throw new ApiError('The server sent no delta.');
    return { delta: found.file, version: found.version };
  },
};

/** The text encoder of a model. */
export const encoderApi = {
  address: (model: string) => `${pathOf(model)}/encoder`,
  describe: (model: string) => call<EncoderManifest>('GET', encoderApi.address(model)),
  open: openFile,
};
