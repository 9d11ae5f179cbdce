/* A group of members with the package as it is published, in Node and in a browser: see aggregation_vectors.py. */

import { AggregationClient, Layout } from './package/index.js';

const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

const encodeEach = (shares) => Object.fromEntries([...shares].map(([number, share]) => [number, toHex(share)]));

/** A source whose bytes are known. */
function known(bytes) {
  let at = 0;
  return (count) => bytes.slice(at, (at += count));
}

/** What one member of the vectors sends, to whom the others send what the vectors have. */
async function replayMember({ context, threshold, segments, survivors, members }, number) {
  const { random, values } = members[number];
  const others = Object.entries(members).filter(([other]) => Number(other) !== number);
  const client = await AggregationClient.create(known(fromHex(random)));
  const { sealing, masking } = client.advertise();
  const layout = new Layout(segments.map(([length, bits]) => ({ length, bits })));
  const group = { context: fromHex(context), threshold, layout };
  const keys = new Map([[number, client.advertise()]]);
  for (const [other, each] of others)
    keys.set(Number(other), { sealing: fromHex(each.sealing), masking: fromHex(each.masking) });
  const { sealed, commitment } = await client.share(group, number, keys);
  const sent = {
    random,
    values,
    sealing: toHex(sealing),
    masking: toHex(masking),
    sealed: encodeEach(sealed),
    commitment: toHex(commitment),
    packed: null,
    masking_keys: {},
    seeds: {},
  };
  if (!survivors.includes(number)) return sent;
  const received = new Map(others.map(([other, each]) => [Number(other), fromHex(each.sealed[number])]));
  const packed = toHex(await client.mask(received, values));
  const { maskingKeys, seeds } = client.unmask(survivors);
  return { ...sent, packed, masking_keys: encodeEach(maskingKeys), seeds: encodeEach(seeds) };
}

/** What all members send. */
export async function replay(vectors) {
  const numbers = Object.keys(vectors.members).map(Number);
  const sent = await Promise.all(numbers.map(async (number) => [number, await replayMember(vectors, number)]));
  return Object.fromEntries(sent);
}
