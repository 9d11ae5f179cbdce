/* Encodes texts in a worker: the page stays responsive meanwhile.

   page --files to load | texts--> worker: ONNX Runtime, network --int8 [384] for each text--> page
*/

import { env, InferenceSession, Tensor } from 'onnxruntime-web/wasm';
import { MiniLmEncoder, type Runtime } from '../../../packages/text-encoder/src';

/** Where the kept files are. cache: its name. manifest, runtime: their addresses. */
export interface KeptFiles {
  cache: string;
  manifest: string;
  runtime: string;
}

export type EncoderRequest = { load: KeptFiles } | { texts: readonly string[] };

/** value: the epoch of the encoder that was loaded, or the features of the texts. */
export type EncoderReply = { value: unknown } | { error: string; name: string };

let encoder: MiniLmEncoder | null = null;

addEventListener('message', ({ data, ports: [port] }: MessageEvent<EncoderRequest>) => {
  const answer = (reply: EncoderReply) => port?.postMessage(reply);
  run(data).then(
    (value) => answer({ value }),
    (error: Error) => answer({ error: error.message, name: error.name }),
  );
});

async function run(request: EncoderRequest): Promise<unknown> {
  if ('load' in request) {
    encoder = await load(request.load);
    return encoder.manifest.epoch;
  }
  const features: Int8Array[] = [];
  for (const text of request.texts) features.push(await encoder!.encode(text));
  return features;
}

async function load({ cache: name, manifest, runtime }: KeptFiles): Promise<MiniLmEncoder> {
  const find = async (address: string) => {
    const kept = await caches.match(address, { cacheName: name }); // does not create a cache that was deleted
    if (kept === undefined) throw new Error(`The file ${address} is not kept any more.`);
    return kept;
  };
  const compressed = (await find(runtime)).body!;
  const wasm = new Response(compressed.pipeThrough(new DecompressionStream('gzip')));
  env.wasm.wasmBinary = await wasm.arrayBuffer();
  env.wasm.numThreads = 1; // several need headers that isolate the page from pages that embed it
  const onnx = { InferenceSession, Tensor } as unknown as Runtime;
  const read = async (address: string) => new Uint8Array(await (await find(address)).arrayBuffer());
  return MiniLmEncoder.load(onnx, manifest, () => {}, read);
}
