import { expect, test } from 'vitest';
import vectors from '../../../tests/packages/online_federated/aggregation_vectors.json';
import { Layout } from '../../../packages/online-federated/js/src/index.js';
import { expand, KEY_BYTES, KeyPair } from '../../../packages/online-federated/js/src/primitives.js';
import { splitSecret } from '../../../packages/online-federated/js/src/shamir.js';
import { fromHex, toHex } from './scene.js';

// What whole members send is compared in tests/packages/online_federated/test_aggregation_conformance.py: in Node and in Chromium.

const drawn = fromHex(vectors.members[1].random);
const secret = (place: number) => drawn.slice(place * KEY_BYTES, (place + 1) * KEY_BYTES);

test('a public key and an agreed key are those of Python', async () => {
  const pair = await KeyPair.read(secret(1));
  expect(toHex(pair.publicKey)).toBe(vectors.members[1].masking);
  const agreed = await pair.agree(fromHex(vectors.members[2].masking), fromHex(vectors.context));
  expect(toHex(agreed)).toBe(vectors.agreed);
});

test('a mask has the bytes of Python', async () => {
  const stream = await expand(secret(2), 1000);
  const digest = await crypto.subtle.digest('SHA-256', stream);
  expect(toHex(new Uint8Array(digest))).toBe(vectors.expanded_sha256);
});

test('shares are those that members of Python reveal', () => {
  let at = 3 * KEY_BYTES;
  const random = (count: number) => drawn.slice(at, (at += count));
  const { threshold, members } = vectors;
  const count = Object.keys(members).length;
  splitSecret(secret(1), threshold, count, random);
  const seeds = splitSecret(secret(2), threshold, count, random);
  const revealed = [members[1], members[2], members[3]].map(({ seeds }) => seeds[1]);
  expect(seeds.slice(0, 3).map(toHex)).toEqual(revealed);
});

test('values of all bits are packed into the bytes of the layout', () => {
  const layout = new Layout(vectors.segments.map(([length, bits]) => ({ length: length!, bits: bits! })));
  const packed = layout.pack(layout.encode(vectors.members[1].values));
  expect(2 * packed.length).toBe(vectors.members[1].packed?.length);
  expect(layout.pack(layout.encode(vectors.members[1].values.map(() => -0)))).toEqual(new Uint8Array(packed.length));
});
