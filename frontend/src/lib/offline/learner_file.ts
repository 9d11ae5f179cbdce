/* What the headers of a learner's file and of a delta say, and how one version's file becomes that of another.

     kept file + delta --applyDelta--> file of the newer version, with the checksum that the delta names
*/

import { applyDelta } from '../../../packages/learner/src';
import type { DeltaApi } from '../api/offline';
import type { ExportedFile } from '../http';
import { MAX_FILE_BYTES } from './local_model.svelte';

const LENGTH_BYTES = 8;

/** One entry of the metadata of a safetensors file, which is JSON. Raises an error for another file. */
function readMetadata(file: Uint8Array, name: string): Record<string, unknown> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = Number(view.getBigUint64(0, true));
  const header = new TextDecoder().decode(file.subarray(LENGTH_BYTES, LENGTH_BYTES + length));
  const { __metadata__: metadata } = JSON.parse(header) as {
    __metadata__: Record<string, string>;
  };
  return JSON.parse(metadata[name]!) as Record<string, unknown>;
}

/** The metadata of a learner's file. Raises an error for another file. */
export const readMeta = (file: Uint8Array) => readMetadata(file, 'sums');

/** The offset that the model had learned when the file was written. */
export function readLearnedUntil(file: Uint8Array): number {
  const { learned_until } = readMeta(file);
  if (typeof learned_until !== 'number') throw new Error('the file does not say what it has learned');
  return learned_until;
}

/** The kept file, changed to that of a version; null where it is that already. Raises an error where there is no delta
    of this file, or its result does not have the SHA-256 of the sums: then the whole file is the way. */
export async function updateLearnerFile(
  kept: ExportedFile,
  model: string,
  version: string,
  api: DeltaApi,
): Promise<ExportedFile | null> {
  const { delta, version: reached } = await api.changed(model, kept.version, version, MAX_FILE_BYTES);
  const { from_sha256, to_sha256 } = readMetadata(delta, 'delta');
  if (tagOf(from_sha256) !== kept.etag)
    throw new Error(`the delta changes the file ${String(from_sha256)}, not ${kept.etag}`);
  if (reached === kept.version) return null;
  return { file: applyDelta(kept.file, delta), etag: tagOf(to_sha256), version: reached };
}

/** How the service tags a file. */
const tagOf = (sha256: unknown) => `"${String(sha256)}"`;
