import { expect, test } from 'vitest';
import { MiniLmEncoder, quantise, type EncoderManifest, type Runtime } from '../../packages/text-encoder/src/index.ts';

const VOCABULARY = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'open', 'when', '##ed'].join('\n');
const NETWORK = Uint8Array.of(1, 2, 3);

async function hash(data: Uint8Array<ArrayBuffer>) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
  return [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** ONNX Runtime whose network answers the ids as a vector, divided by 512. */
function createRuntime() {
  const models: Uint8Array[] = [];
  class Tensor {
    constructor(
      readonly type: string,
      readonly data: BigInt64Array,
      readonly dims: number[],
    ) {}
  }
  const run = async ({ ids }: Record<string, { data: unknown }>) => ({
    vectors: { data: Float32Array.from(ids!.data as BigInt64Array, (id) => Number(id) / 512) },
  });
  const create = async (model: Uint8Array) => {
    models.push(model);
    return { run };
  };
  return { models, runtime: { InferenceSession: { create }, Tensor } as unknown as Runtime };
}

async function serve(change: Partial<EncoderManifest['files'][number]> = {}) {
  const vocabulary = new TextEncoder().encode(VOCABULARY);
  const files = [
    { name: 'model.onnx', bytes: NETWORK.length, sha256: await hash(NETWORK), ...change },
    { name: 'vocab.txt', bytes: vocabulary.length, sha256: await hash(vocabulary) },
  ];
  const manifest = { epoch: 'e', scale: 512, max_tokens: 4, files };
  const answers: Record<string, Uint8Array<ArrayBuffer>> = {
    '/encoder': new TextEncoder().encode(JSON.stringify(manifest)),
    '/encoder/model.onnx': NETWORK,
    '/encoder/vocab.txt': vocabulary,
  };
  return async (address: string, onBytes: (count: number) => void) => {
    onBytes(answers[address]!.length);
    return answers[address]!;
  };
}

test('a text becomes the ids of its tokens, and the vector of the network int8', async () => {
  const { models, runtime } = createRuntime();
  const encoder = await MiniLmEncoder.load(runtime, '/encoder', () => {}, await serve());
  expect(models).toEqual([NETWORK]);
  expect([...(await encoder.encode('When opened'))]).toEqual([2, 5, 4, 3]);
  expect([...(await encoder.encode('when when when when'))]).toEqual([2, 5, 5, 3]);
});

test('the progress of the download is told in bytes of all files', async () => {
  const seen: [number, number][] = [];
  const total = NETWORK.length + VOCABULARY.length;
  await MiniLmEncoder.load(createRuntime().runtime, '/encoder', (...at) => seen.push(at), await serve());
  expect(seen).toEqual([
    [NETWORK.length, total],
    [total, total],
  ]);
});

test('a file that is not as announced is refused', async () => {
  const loading = MiniLmEncoder.load(createRuntime().runtime, '/encoder', () => {}, await serve({ sha256: '0' }));
  await expect(loading).rejects.toThrow('The file model.onnx of the text encoder is damaged.');
});

test('halves are rounded to even, and numbers limited to int8', () => {
  const vector = Float32Array.of(0.5, 1.5, -0.5, -1.5, 2.4, 300, -300);
  expect([...quantise(vector, 1)]).toEqual([0, 2, -0, -2, 2, 127, -127].map((value) => value + 0));
});
