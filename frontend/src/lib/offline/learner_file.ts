/* What the header of a learner's file says: safetensors, whose metadata "sums" is JSON. */

const LENGTH_BYTES = 8;

/** The metadata. Raises an error for another file. */
export function readMeta(file: Uint8Array): Record<string, unknown> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = Number(view.getBigUint64(0, true));
  const header = new TextDecoder().decode(file.subarray(LENGTH_BYTES, LENGTH_BYTES + length));
  const { __metadata__: metadata } = JSON.parse(header) as { __metadata__: { sums: string } };
  return JSON.parse(metadata.sums) as Record<string, unknown>;
}

/** The offset that the model had learned when the file was written. */
export function readLearnedUntil(file: Uint8Array): number {
  const { learned_until } = readMeta(file);
  if (typeof learned_until !== 'number')
    throw new Error('the file does not say what it has learned');
  return learned_until;
}
