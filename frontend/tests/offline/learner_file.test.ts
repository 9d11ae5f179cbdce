import { expect, test } from 'vitest';
import { Learner } from '../../packages/learner/src/index.js';
import { readSums } from '../../packages/learner/src/sums_file.js';
import { readMeta, updateLearnerFile } from '../../src/lib/offline/learner_file';

/** A version that is kept, and a delta until the next one, which has learned nothing. */
function openVersions({ from = 'old', fingerprint = '' } = {}) {
  const file = Learner.create({ input: 'vector', size: 2, scale: 1 }).write();
  const { width } = readSums(file).sums;
  const names = { from_sha256: from, to_sha256: 'new', layout: { sums: ['int8', [2, 0, width]] } };
  const changed = { version: '8', ...(fingerprint ? { fingerprint } : {}) };
  const delta = JSON.stringify({ ...names, format: 1, changed, removed: [] });
  const header = new TextEncoder().encode(JSON.stringify({ __metadata__: { delta } }));
  const bytes = new Uint8Array(8 + header.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true);
  bytes.set(header, 8);
  const sinces: string[] = [];
  const api = {
    changed: async (_: string, since: string, version: string, max_bytes: number) => {
      expect(max_bytes).toBe(8_000_000);
      sinces.push(since);
      return { delta: bytes, version };
    },
  };
  const kept = { file, etag: '"old"', version: '7' };
  const update = (version: string) => updateLearnerFile(kept, 'digits', version, api);
  return { update, sinces };
}

test('a kept file and a delta give the next one, under the checksum that the delta names', async () => {
  const { update, sinces } = openVersions();
  const updated = await update('8');
  expect([updated?.etag, updated?.version, sinces]).toEqual(['"new"', '8', ['7']]);
  expect(readMeta(updated!.file)['version']).toBe('8');
});

test('a version that is kept already needs no delta', async () => {
  expect(await openVersions().update('7')).toBeNull();
});

test.each(['7', '8'])('a delta of another file is refused: to version %s', async (version) => {
  const { update } = openVersions({ from: 'another' });
  await expect(update(version)).rejects.toThrow('the delta changes the file another, not "old"');
});

test('a result without the SHA-256 of its sums is refused', async () => {
  const { update } = openVersions({ fingerprint: 'f'.repeat(64) });
  await expect(update('8')).rejects.toThrow('not those of its fingerprint');
});
