/* The files of the text encoder, kept in this browser until they are deleted.

     wanted files --download, sha256--> Cache Storage --> the worker

   A file that is complete stays. One whose download was interrupted goes on where it stopped, while the page is open.
   That the cache exists is what says that the person wants the encoder in this browser. So only `want` creates it: another
   tab may have deleted it meanwhile.
*/

import { DamagedFile, hash } from '../../../packages/text-encoder/src';
import { ApiError, NO_ANSWER } from '../http';

/** A file by its address, with its origin. sha256: in hexadecimal; null for a script, which the browser loads itself. */
export interface WantedFile {
  address: string;
  bytes: number;
  sha256: string | null;
}

/** The answer for a file from one of its bytes on. Rejects with an ApiError for a refusal. */
export type OpenFile = (address: string, from: number, signal: AbortSignal) => Promise<Response>;

/** What has arrived of a file. */
interface Begun {
  sha256: string;
  parts: Uint8Array<ArrayBuffer>[];
  bytes: number;
}

/** The encoder was switched off, perhaps by another tab. */
export class NotWanted extends Error {}

const PARTIAL_CONTENT = 206;

export class EncoderFiles {
  private begun = new Map<string, Begun>();

  /** name: of the cache. */
  constructor(
    private caches: CacheStorage,
    readonly name: string,
    private open: OpenFile,
  ) {}

  isWanted(): Promise<boolean> {
    return this.caches.has(this.name);
  }

  /** Remember that they are wanted. */
  async want(): Promise<void> {
    await this.caches.open(this.name);
  }

  /** Delete what is kept, which is wanted all the same. */
  async empty(): Promise<void> {
    this.begun.clear();
    const cache = await this.cache();
    for (const { url } of await cache.keys()) await cache.delete(url);
  }

  async delete(): Promise<void> {
    this.begun.clear();
    await this.caches.delete(this.name).catch(() => {}); // where storage is refused now, there is nothing that could be read
  }

  /** The content of a small file that `note` has kept; null for none. */
  async read(address: string): Promise<unknown> {
    const kept = await (await this.cache()).match(address);
    return kept === undefined ? null : kept.json();
  }

  async note(address: string, content: unknown): Promise<void> {
    await (await this.cache()).put(address, Response.json(content));
  }

  async areKept(wanted: readonly WantedFile[]): Promise<boolean> {
    const cache = await this.cache();
    for (const file of wanted) if (!(await isKept(cache, file))) return false;
    return true;
  }

  /** Keep the files that are missing, and delete those of earlier builds. noted: addresses of what `note` has kept, which
      stays. onBytes: gets the count of bytes that are here. Rejects with an ApiError, a DamagedFile, a QuotaExceededError
      where there is no room, or NotWanted. */
  async complete(
    wanted: readonly WantedFile[],
    noted: readonly string[],
    signal: AbortSignal,
    onBytes: (count: number) => void,
  ): Promise<void> {
    const cache = await this.cache();
    let before = 0;
    for (const file of wanted) {
      if (!(await isKept(cache, file))) {
        const content = await this.download(file, signal, (count) => onBytes(before + count));
        signal.throwIfAborted();
        await (await this.cache()).put(file.address, content);
        this.begun.delete(file.address);
      }
      before += file.bytes;
      onBytes(before);
    }
    const stay = [...noted, ...wanted.map(({ address }) => address)];
    const addresses = new Set(stay.map((address) => new URL(address).href));
    for (const { url } of await cache.keys()) if (!addresses.has(url)) await cache.delete(url);
  }

  private async cache(): Promise<Cache> {
    if (!(await this.isWanted())) throw new NotWanted('The encoder was switched off.');
    return this.caches.open(this.name);
  }

  /** A stream that ends early is a lost connection, unless it has brought nothing. */
  private async download(
    { address, bytes, sha256 }: WantedFile,
    signal: AbortSignal,
    onBytes: (count: number) => void,
  ): Promise<Response> {
    if (sha256 === null) return this.open(address, 0, signal);
    const known = this.begun.get(address);
    const begun = known?.sha256 === sha256 ? known : { sha256, parts: [], bytes: 0 };
    this.begun.set(address, begun);
    const { bytes: before } = begun;
    if (before < bytes) await receive(begun, await this.open(address, before, signal), onBytes);
    if (before < begun.bytes && begun.bytes < bytes) throw new ApiError(NO_ANSWER);
    const content = new Uint8Array(await new Blob(begun.parts).arrayBuffer());
    if ((await hash(content)) !== sha256) {
      this.begun.delete(address);
      throw new DamagedFile(`The file ${address} does not have the announced sha256.`);
    }
    return new Response(content, { headers: { etag: sha256 } });
  }
}

/** Whether a file is kept with the content that is wanted. */
async function isKept(cache: Cache, { address, sha256 }: WantedFile): Promise<boolean> {
  const kept = await cache.match(address);
  return kept !== undefined && (sha256 === null || kept.headers.get('etag') === sha256);
}

async function receive(begun: Begun, response: Response, onBytes: (count: number) => void) {
  if (response.status !== PARTIAL_CONTENT) [begun.parts, begun.bytes] = [[], 0];
  const reader = response.body!.getReader();
  const next = () =>
    reader.read().catch((error: unknown) => {
      if (error instanceof DOMException && error.name === 'AbortError') throw error;
      throw new ApiError(NO_ANSWER);
    });
  for (let part = await next(); !part.done; part = await next()) {
    begun.parts.push(part.value);
    onBytes((begun.bytes += part.value.length));
  }
}
