import { expect, test } from 'vitest';
import { sha256, toHex } from '../../packages/learner/src/sha256.js';

test('it is the SHA-256 of WebCrypto for every length around a block', async () => {
  for (let length = 0; length < 200; length += 1) {
    const data = Uint8Array.from({ length }, (_, at) => (at * 37 + length) % 256);
    const expected = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
    expect(toHex(sha256(data)), `${length} bytes`).toBe(toHex(expected));
  }
});
