/* A browser that keeps files, a service that sends them, and an encoder that counts letters. */

import { ApiError, NO_ANSWER } from '../../src/lib/http';
import { hash } from '../../packages/text-encoder/src';
import { BetterAnswers, type RunningEncoder } from '../../src/lib/encoder/better_answers.svelte';
import { EncoderFiles, type WantedFile } from '../../src/lib/encoder/files';
import type { Features } from '../../src/lib/encoder/prepared';
import type { Tabs } from '../../src/lib/offline/queue.svelte';
import { LocalReplies } from '../../src/lib/offline/replies';
import type { EncoderManifest } from '../../src/lib/schema';

export const ADDRESS = 'https://service/v1/models/chat/encoder';
const RUNTIME = 'https://service/assets/onnxruntime-1.bin';
const SCRIPT = 'https://service/assets/encoder_worker-1.js';

/** The part of Cache Storage that is used, in memory. */
class MemoryCache {
  files = new Map<string, { content: Uint8Array<ArrayBuffer>; etag: string }>();
  isFull = false;

  async match(address: string) {
    const kept = this.files.get(address);
    return kept && new Response(kept.content, { headers: { etag: kept.etag } });
  }

  async put(address: string, response: Response) {
    if (this.isFull) throw new DOMException('no room', 'QuotaExceededError');
    const content = new Uint8Array(await response.arrayBuffer());
    this.files.set(address, { content, etag: response.headers.get('etag') ?? '' });
  }

  async keys() {
    return [...this.files.keys()].map((url) => ({ url }));
  }

  async delete(address: string) {
    return this.files.delete(address);
  }
}

export class MemoryCaches {
  caches = new Map<string, MemoryCache>();
  /** Whether this browser refuses to keep files. */
  isRefused = false;

  async has(name: string) {
    if (this.isRefused) throw new DOMException('no storage', 'SecurityError');
    return this.caches.has(name);
  }

  async open(name: string) {
    if (this.isRefused) throw new DOMException('no storage', 'SecurityError');
    const cache = this.caches.get(name) ?? new MemoryCache();
    this.caches.set(name, cache);
    return cache;
  }

  async delete(name: string) {
    if (this.isRefused) throw new DOMException('no storage', 'SecurityError');
    return this.caches.delete(name);
  }

  get kept(): string[] {
    return [...this.caches.values()].flatMap(({ files }) => [...files.keys()]);
  }
}

/** Sends files in two parts. */
export class FakeFiles {
  contents = new Map<string, Uint8Array<ArrayBuffer>>();
  /** The addresses that were asked for, each with its first byte. */
  requests: [string, number][] = [];
  /** Whether the connection is lost after the first part of the next answer. */
  isCut = false;
  /** Whether the next answer ends after its first part, as if it were complete. */
  isShort = false;
  failure: ApiError | null = null;
  sendsParts = true;
  /** Settles before each answer. */
  gate: Promise<unknown> = Promise.resolve();

  open = async (address: string, from: number, signal: AbortSignal): Promise<Response> => {
    this.requests.push([address, from]);
    await this.gate;
    signal.throwIfAborted();
    if (this.failure) throw this.failure;
    const isPart = from > 0 && this.sendsParts;
    const rest = this.contents.get(address)!.slice(isPart ? from : 0);
    const { isCut, isShort } = this;
    this.isCut = this.isShort = false;
    const half = rest.length >> 1;
    const parts = [rest.slice(0, half), ...(isShort ? [] : [rest.slice(half)])];
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (isCut && parts.length === 1) return controller.error(new TypeError('network error'));
        const part = parts.shift();
        if (part === undefined) controller.close();
        else controller.enqueue(part);
      },
    });
    return new Response(body, { status: isPart ? 206 : 200 });
  };
}

/** Counts the letters of a text. */
export class LetterEncoder implements RunningEncoder {
  epoch = 'letters';
  /** The texts of each request. */
  requests: string[][] = [];
  isClosed = false;
  /** A text that it cannot encode. */
  refused = '';
  fail: (error: Error) => void = () => {};
  ended = new Promise<never>((_, reject) => (this.fail = reject));

  /** gate: settles before each answer. */
  constructor(
    signal: AbortSignal,
    private gate: Promise<unknown>,
  ) {
    this.ended.catch(() => {});
    signal.addEventListener('abort', () => this.close());
  }

  encode = async (texts: readonly string[]) => {
    if (this.isClosed) throw new Error('closed');
    this.requests.push([...texts]);
    if (texts.includes(this.refused)) throw new Error('refused');
    await Promise.race([this.gate, this.ended]);
    return texts.map((text) => {
      const counts = new Int8Array(384);
      for (const letter of text.toLowerCase()) counts[letter.charCodeAt(0) % 384]! += 1;
      return counts;
    });
  };

  close() {
    this.isClosed = true;
    this.fail(new Error('closed'));
  }
}

/** Turns and news that the tabs of a browser share. */
class TabsOfBrowser {
  private listeners: (() => void)[] = [];
  private turn: Promise<unknown> = Promise.resolve();

  open(): Tabs {
    let own: () => void = () => {};
    return {
      announce: () => this.listeners.filter((each) => each !== own).forEach((each) => each()),
      listen: (onChange) => this.listeners.push((own = onChange)),
    };
  }

  exclusively = (work: () => Promise<void>): Promise<void> => {
    const done = this.turn.then(work);
    this.turn = done.catch(() => {});
    return done;
  };
}

export const readReplies = (...examples: string[]) =>
  LocalReplies.read(
    new TextEncoder().encode(JSON.stringify({ format: 1, replies: [{ id: 'hours', text: 'At nine.', examples }] })),
  );

export async function openScene() {
  const caches = new MemoryCaches();
  const service = new FakeFiles();
  const wanted: WantedFile[] = [];
  for (const [address, text] of [
    [`${ADDRESS}/model.onnx`, 'a network'],
    [`${ADDRESS}/vocab.txt`, 'tokens'],
    [RUNTIME, 'a runtime'],
  ] as const) {
    const content = new TextEncoder().encode(text);
    service.contents.set(address, content);
    wanted.push({ address, bytes: content.length, sha256: await hash(content) });
  }
  service.contents.set(SCRIPT, new TextEncoder().encode('a script'));
  const files = wanted.slice(0, 2).map(({ address, bytes, sha256 }) => ({
    name: address.slice(ADDRESS.length + 1),
    bytes,
    sha256: sha256!,
  }));
  const manifest: EncoderManifest = {
    epoch: 'letters',
    width: 384,
    scale: 512,
    max_tokens: 256,
    files,
  };
  const tabs = new TabsOfBrowser();
  const scene = {
    caches,
    service,
    manifest,
    wanted,
    encoders: [] as LetterEncoder[],
    startFailure: null as Error | null,
    isReachable: true,
    /** Settles before an encoder has started. */
    startGate: Promise.resolve() as Promise<unknown>,
    /** Settles before an encoder answers. */
    encodeGate: Promise.resolve() as Promise<unknown>,
    /** Whether the page knows that the connection is lost. */
    isLost: false,
    /** The pauses that have begun: how long each takes, and what ends it. */
    pauses: [] as { ms: number; end: () => void }[],
    /** Settles before the description of the encoder arrives. */
    describeGate: Promise.resolve() as Promise<unknown>,
    memory: null as { epoch: string; features: Features } | null,
    files: () => new EncoderFiles(caches as unknown as CacheStorage, 'encoder', service.open),
    /** The page as it is opened. */
    open: () =>
      new BetterAnswers({
        files: scene.files(),
        address: ADDRESS,
        describe: async () => {
          await scene.describeGate;
          if (!scene.isReachable) throw new ApiError(NO_ANSWER);
          return manifest;
        },
        own: [wanted[2]!, { address: SCRIPT, bytes: 0, sha256: null }],
        start: async (signal) => {
          if (scene.startFailure) throw scene.startFailure;
          const encoder = new LetterEncoder(signal, scene.encodeGate);
          scene.encoders.push(encoder);
          await Promise.race([scene.startGate, encoder.ended]);
          return encoder;
        },
        isLost: () => scene.isLost,
        exclusively: tabs.exclusively,
        tabs: tabs.open(),
        pause: (ms) => new Promise((end) => scene.pauses.push({ ms, end })),
        recall: async () => scene.memory,
        remember: async (kept) => void (scene.memory = kept),
      }),
  };
  return scene;
}
