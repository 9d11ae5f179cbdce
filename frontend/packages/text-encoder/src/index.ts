/* Encodes texts in a browser, with the network that the service uses.

   text --WordPiece--> ids --ONNX Runtime--> unit vector [384] --x 512, rounded--> int8 [384]

   The files come from the service (GET /v1/models/MODEL/encoder). Their weights are rounded to int8, so that the
   download is a quarter: vectors are close to the service's (cosine 0.999), but not the same bits.
*/

import { roundHalfEven } from '../../learner/src/columns.ts';
import { WordPiece } from './wordpiece.ts';

export { WordPiece } from './wordpiece.ts';

/** The part of onnxruntime-web, or of onnxruntime-node, that is used here. */
export interface Runtime {
  InferenceSession: { create(model: Uint8Array, options?: object): Promise<Session> };
  Tensor: new (type: 'int64', data: BigInt64Array, dims: number[]) => RuntimeTensor;
}
interface RuntimeTensor {
  readonly data: unknown;
}
interface Session {
  run(feeds: Record<string, RuntimeTensor>): Promise<Record<string, RuntimeTensor>>;
}

/** What the service tells of its encoder. bytes: of the download. sha256: in hexadecimal. */
export interface EncoderManifest {
  epoch: string;
  scale: number;
  max_tokens: number;
  files: { name: 'model.onnx' | 'vocab.txt'; bytes: number; sha256: string }[];
}

/** A file is not the one that the manifest names. */
export class DamagedFile extends Error {
  override name = 'DamagedFile';
}

export type Progress = (loadedBytes: number, totalBytes: number) => void;

export class MiniLmEncoder {
  private constructor(
    private runtime: Runtime,
    private session: Session,
    private tokens: WordPiece,
    readonly manifest: EncoderManifest,
  ) {}

  /** Load the encoder from the address of a model's encoder. Raises an Error for a file that is not as announced.
      read: returns the bytes of an address, such as from a cache. */
  static async load(
    runtime: Runtime,
    address: string,
    onProgress: Progress = () => {},
    read: typeof download = download,
  ): Promise<MiniLmEncoder> {
    const text = new TextDecoder().decode(await read(address, () => {}));
    const manifest = JSON.parse(text) as EncoderManifest;
    const total = manifest.files.reduce((sum, { bytes }) => sum + bytes, 0);
    const loaded = new Map<string, Uint8Array<ArrayBuffer>>();
    let before = 0;
    for (const { name, bytes, sha256 } of manifest.files) {
      const start = before;
      const data = await read(`${address}/${name}`, (count) => onProgress(start + count, total));
      if ((await hash(data)) !== sha256) throw new DamagedFile(`The file ${name} of the text encoder is damaged.`);
      loaded.set(name, data);
      before += bytes;
    }
    const session = await runtime.InferenceSession.create(loaded.get('model.onnx')!);
    const vocabulary = new TextDecoder().decode(loaded.get('vocab.txt'));
    return new MiniLmEncoder(runtime, session, new WordPiece(vocabulary, manifest.max_tokens), manifest);
  }

  /** The features of a text: int8 [384]. */
  async encode(text: string): Promise<Int8Array> {
    const ids = this.tokens.encode(text);
    const tensor = new this.runtime.Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]);
    const { vectors } = await this.session.run({ ids: tensor });
    return quantise(vectors!.data as Float32Array, this.manifest.scale);
  }
}

/** Numbers times the scale, rounded (halves to even) and limited to [-127, 127]. */
export function quantise(vector: Float32Array, scale: number): Int8Array {
  return Int8Array.from(vector, (value) => Math.max(-127, Math.min(127, roundHalfEven(scale * value))));
}

/** The bytes of an address, with the count of those that have arrived. */
async function download(address: string, onBytes: (count: number) => void): Promise<Uint8Array<ArrayBuffer>> {
  const response = await fetch(address);
  if (!response.ok || !response.body) throw new Error(`The service answered ${response.status} for ${address}.`);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let count = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    onBytes((count += part.value.length));
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** The sha256 in hexadecimal. */
export async function hash(data: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
  return [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
