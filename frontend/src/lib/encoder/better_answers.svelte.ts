/* Better answers without the connection: the text encoder of the service, in this browser, if the person wants it.

     off --switchOn--> starting --> reading --> ready
      ^                  |  ^ \---------\---------\-----> stopped, with the problem; start goes on
      |                  v  |                               ^   |
      |               downloading --------------------------/   \--after a lost connection by itself
      \--removing <--switchOff, in every stage

   Other tabs follow when it is switched on or off. While it is not ready, the replies are found by hashed words. The
   encoder is loaded once: a newer one takes its place only after it was switched off and on. It answers for itself,
   because it has read all texts that are compared.
*/

import { DamagedFile } from '../../../packages/text-encoder/src';
import { isUnreachable } from '../http';
import { reasonOf, type MissingReason } from '../offline/local_model.svelte';
import { HASHED, type LocalReplies } from '../offline/replies';
import type { Tabs } from '../offline/queue.svelte';
import type { EncoderManifest } from '../schema';
import { NotWanted, type EncoderFiles, type WantedFile } from './files';
import type { Pause } from '../ui/live_status.svelte';
import { PreparedEncoder, type Features } from './prepared';

const MAX_WAIT_MS = 3000; // of a question, for an encoder that starts
const FIRST_PAUSE_MS = 2000; // after a lost connection; each is twice the one before
const MAX_PAUSE_MS = 60_000;

export type Stage = 'off' | 'downloading' | 'starting' | 'reading' | 'ready' | 'stopped' | 'removing';
export type Problem = MissingReason | 'lost' | 'damaged';

/** An encoder that runs. ended: rejects when it does not any more. */
export interface RunningEncoder {
  readonly epoch: string;
  readonly ended: Promise<never>;
  encode: (texts: readonly string[]) => Promise<Int8Array[]>;
  close(): void;
}

/** The features of the known texts, which are kept with the epoch of their encoder. */
interface KeptFeatures {
  epoch: string;
  features: Features;
}

export interface Dependencies {
  files: EncoderFiles;
  /** The address of the encoder. */
  address: string;
  describe: () => Promise<EncoderManifest>;
  /** The files of this build, beside those of the encoder. */
  own: readonly WantedFile[];
  /** signal: closes the encoder, at any time. */
  start: (signal: AbortSignal) => Promise<RunningEncoder>;
  /** Whether the service cannot be reached. Then `resume` is called when it can. */
  isLost: () => boolean;
  /** Runs the download while no other tab does. */
  exclusively: (work: () => Promise<void>, signal: AbortSignal) => Promise<void>;
  tabs: Tabs;
  pause: Pause;
  recall: () => Promise<KeptFeatures | null>;
  remember: (kept: KeptFeatures | null) => Promise<void>;
}

export class BetterAnswers {
  stage = $state<Stage>('off');
  problem = $state<Problem | null>(null);
  /** Bytes of the download; texts while they are read. */
  progress = $state.raw({ done: 0, total: 0 });
  /** The bytes of the whole download; null until they are known. */
  bytes = $state<number | null>(null);

  isOn = $derived(this.stage !== 'off' && this.stage !== 'removing');
  isReady = $derived(this.stage === 'ready');

  private running: RunningEncoder | null = null;
  private reader: PreparedEncoder | null = null;
  /** What answers; null while no replies are kept. */
  private replies: LocalReplies | null = null;
  private abort: AbortController | null = null;
  private work: Promise<void> = Promise.resolve();
  /** Of whom the replies are being read. */
  private reading: PreparedEncoder | null = null;
  /** How often the connection was lost since something was downloaded completely. */
  private losses = 0;

  constructor(private dependencies: Dependencies) {
    dependencies.tabs.listen(() => void this.follow());
  }

  /** Go on with what was chosen in an earlier visit. */
  async load(): Promise<void> {
    if (await this.isWanted()) this.start();
  }

  /** Ask the service how many bytes are downloaded. */
  async measure(): Promise<void> {
    if (this.isOn) return;
    try {
      const bytes = sum(this.filesOf(await this.dependencies.describe()));
      if (!this.isOn) [this.bytes, this.problem] = [bytes, null];
    } catch (error) {
      if (!this.isOn) this.problem = problemOf(error);
    }
  }

  async switchOn(): Promise<void> {
    if (this.stage === 'removing') return;
    const { files, tabs } = this.dependencies;
    try {
      await files.want();
      this.losses = 0;
      this.start();
      tabs.announce();
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  /** Start, or go on after a problem. */
  start() {
    if (this.stage !== 'off' && this.stage !== 'stopped') return;
    this.abort = new AbortController();
    [this.stage, this.problem] = ['starting', null];
    this.work = this.run(this.abort.signal);
  }

  /** Go on after the connection was lost. */
  resume = () => {
    if (this.stage === 'stopped' && this.problem === 'lost') this.start();
  };

  /** Resolves when the encoder has started, or does not within a while: an answer is better then. */
  async whenStarted(): Promise<void> {
    if (this.stage === 'starting') await Promise.race([this.work, this.dependencies.pause(MAX_WAIT_MS)]);
  }

  /** Stop, and delete everything that was downloaded. */
  async switchOff(): Promise<void> {
    const { files, remember, tabs } = this.dependencies;
    this.leave('removing');
    await this.work; // it must not keep a file after this
    await files.delete();
    await remember(null);
    this.stage = 'off';
    tabs.announce();
  }

  /** Let replies be found by the encoder, as soon as it has read them. Returns them. */
  adopt(replies: LocalReplies): LocalReplies {
    this.replies = replies;
    const { running } = this;
    if (running !== null) void this.readReplies().catch((error: unknown) => this.stop(running, error));
    return replies;
  }

  /** Where storage is refused, nothing is kept. */
  private isWanted = () => this.dependencies.files.isWanted().catch(() => false);

  /** Do what another tab has done. */
  private async follow() {
    const isWanted = await this.isWanted();
    if (isWanted && this.stage === 'off') this.start();
    if (!isWanted && this.isOn) this.leave('off');
  }

  private leave(stage: 'off' | 'removing') {
    this.abort?.abort();
    this.end();
    [this.stage, this.problem] = [stage, null];
  }

  private async run(signal: AbortSignal) {
    const { files, start, recall } = this.dependencies;
    try {
      await this.download(signal);
      signal.throwIfAborted();
      [this.stage, this.losses] = ['starting', 0];
      const running = await start(signal);
      signal.throwIfAborted();
      this.running = running;
      running.ended.catch((error: unknown) => this.stop(running, error));
      const kept = await untilAborted(recall(), signal);
      const features = kept?.epoch === running.epoch ? kept.features : new Map<string, Int8Array>();
      this.reader = new PreparedEncoder(running.epoch, running.encode, features);
      await this.readReplies();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof NotWanted) return this.leave('off');
      if (error instanceof DamagedFile && this.stage === 'starting') await files.empty().catch(() => {}); // the problem is named all the same
      if (!signal.aborted) this.fail(error);
    }
  }

  private async download(signal: AbortSignal) {
    const { files, exclusively } = this.dependencies;
    const known = await this.readManifest();
    const wanted = known && this.filesOf(known);
    if (wanted !== null) this.bytes = sum(wanted);
    const areKept = wanted !== null && (await files.areKept(wanted));
    signal.throwIfAborted();
    if (areKept) return;
    [this.stage, this.progress] = ['downloading', { done: 0, total: this.bytes ?? 0 }];
    await exclusively(() => this.complete(signal), signal);
  }

  /** Download what is missing. The description of the encoder is kept last: it says that its files are complete. */
  private async complete(signal: AbortSignal) {
    const { files, address, describe } = this.dependencies;
    const known = await this.readManifest(); // another tab may have brought it
    const manifest = known ?? (await untilAborted(describe(), signal));
    const wanted = this.filesOf(manifest);
    const total = (this.bytes = sum(wanted));
    this.progress = { done: 0, total };
    await files.complete(wanted, [address], signal, (done) => (this.progress = { done, total }));
    signal.throwIfAborted();
    if (known === null) await files.note(address, manifest);
  }

  /** The description of the encoder that is kept; null for none. */
  private async readManifest(): Promise<EncoderManifest | null> {
    const { files, address } = this.dependencies;
    return (await files.read(address)) as EncoderManifest | null;
  }

  private filesOf({ files }: EncoderManifest): WantedFile[] {
    const { address, own } = this.dependencies;
    return [...files.map(({ name, ...file }) => ({ ...file, address: `${address}/${name}` })), ...own];
  }

  /** Read the texts of the replies, and of newer ones that come meanwhile. */
  private async readReplies() {
    const { reader } = this;
    if (reader === null || this.reading === reader) return;
    this.reading = reader;
    let read: LocalReplies | null = null;
    while (this.reader === reader && this.replies !== read) {
      read = this.replies!;
      await this.read(read, reader);
    }
    if (this.reader !== reader) return; // it was switched off, or has failed
    [this.stage, this.reading] = ['ready', null];
  }

  private async read(replies: LocalReplies, reader: PreparedEncoder) {
    const isNew = await reader.read(replies.texts, (done, total) => {
      if (this.reader === reader) [this.stage, this.progress] = ['reading', { done, total }];
    });
    if (this.reader !== reader) return;
    replies.readWith(reader);
    const { epoch } = reader;
    if (isNew) await this.dependencies.remember({ epoch, features: reader.known });
  }

  /** An encoder that has not been replaced meanwhile has failed. */
  private stop(running: RunningEncoder, error: unknown) {
    if (this.running === running) this.fail(error);
  }

  private fail(error: unknown) {
    this.end();
    [this.stage, this.problem] = ['stopped', problemOf(error)];
    if (this.problem === 'lost') void this.tryAgain();
  }

  /** For a loss that ends by itself without the connection being lost, such as a stream that was cut. */
  private async tryAgain() {
    const { abort } = this;
    const { isLost, pause } = this.dependencies;
    await pause(Math.min(FIRST_PAUSE_MS * 2 ** this.losses++, MAX_PAUSE_MS));
    if (this.abort === abort && !isLost()) this.resume();
  }

  private end() {
    const { running } = this;
    [this.running, this.reader, this.reading] = [null, null, null];
    running?.close();
    this.replies?.readWith(HASHED);
  }
}

const sum = (files: readonly WantedFile[]) => files.reduce((total, { bytes }) => total + bytes, 0);

/** Rejects when the signal is aborted, also while the work goes on. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    work.then(resolve, reject);
  });
}

function problemOf(error: unknown): Problem {
  if (isUnreachable(error)) return 'lost';
  return error instanceof DamagedFile ? 'damaged' : reasonOf(error);
}
