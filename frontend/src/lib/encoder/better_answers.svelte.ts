/* Better answers without the connection: the text encoder of the service, in this browser, if the person wants it.

     off --switchOn--> downloading --> starting --> reading --> ready
      ^                      \------------\------------\----> stopped, with the problem; start goes on
      \--removing <--switchOff, in every stage

   While it is not ready, the replies are found by hashed words. The encoder is loaded once: a newer one takes its place
   only after it was switched off and on. It answers for itself, because it has read all texts that are compared.
*/

import { DamagedFile } from '../../../packages/text-encoder/src';
import { isUnreachable } from '../api';
import { reasonOf, type MissingReason } from '../offline/local_model.svelte';
import { HASHED, type LocalReplies } from '../offline/replies';
import type { EncoderManifest } from '../schema';
import type { EncoderFiles, WantedFile } from './files';
import type { Pause } from '../ui/live_status.svelte';
import { PreparedEncoder, type Features } from './prepared';

const MAX_WAIT_MS = 3000; // of a question, for an encoder that starts

export type Stage =
  'off' | 'downloading' | 'starting' | 'reading' | 'ready' | 'stopped' | 'removing';
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
  start: () => Promise<RunningEncoder>;
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

  constructor(private dependencies: Dependencies) {}

  /** Go on with what was chosen in an earlier visit. */
  async load(): Promise<void> {
    if (await this.dependencies.files.isWanted()) this.start();
  }

  /** Ask the service how many bytes are downloaded. */
  async measure(): Promise<void> {
    if (this.isOn) return;
    try {
      this.bytes = sum(this.filesOf(await this.dependencies.describe()));
      this.problem = null;
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  async switchOn(): Promise<void> {
    try {
      await this.dependencies.files.want();
      this.start();
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  /** Start, or go on after a problem. */
  start() {
    if (this.stage !== 'off' && this.stage !== 'stopped') return;
    this.abort = new AbortController();
    [this.stage, this.problem, this.progress] = [
      'downloading',
      null,
      { done: 0, total: this.bytes ?? 0 },
    ];
    this.work = this.run(this.abort.signal);
  }

  /** Go on after the connection was lost. */
  resume = () => {
    if (this.stage === 'stopped' && this.problem === 'lost') this.start();
  };

  /** Resolves when the encoder has started, or does not within a while: an answer is better then. */
  async whenStarted(): Promise<void> {
    if (this.stage === 'downloading' || this.stage === 'starting')
      await Promise.race([this.work, this.dependencies.pause(MAX_WAIT_MS)]);
  }

  /** Stop, and delete everything that was downloaded. */
  async switchOff(): Promise<void> {
    const { files, remember } = this.dependencies;
    this.abort?.abort();
    this.end();
    [this.stage, this.problem] = ['removing', null];
    await this.work; // it must not keep a file after this
    await files.delete().catch(() => {}); // where storage is refused now, there is nothing that could be read
    await remember(null);
    this.stage = 'off';
  }

  /** Let replies be found by the encoder, as soon as it has read them. Returns them. */
  adopt(replies: LocalReplies): LocalReplies {
    this.replies = replies;
    const { running } = this;
    if (running !== null)
      void this.readReplies().catch((error: unknown) => this.stop(running, error));
    return replies;
  }

  private async run(signal: AbortSignal) {
    const { files, start, recall } = this.dependencies;
    try {
      await this.download(signal);
      this.stage = 'starting';
      const running = await start();
      if (signal.aborted) return running.close();
      this.running = running;
      running.ended.catch((error: unknown) => this.stop(running, error));
      const kept = await recall();
      const features = kept?.epoch === running.epoch ? kept.features : new Map<string, Int8Array>();
      this.reader = new PreparedEncoder(running.epoch, running.encode, features);
      await this.readReplies();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof DamagedFile && this.stage === 'starting') await files.empty();
      this.fail(error);
    }
  }

  /** Download what is missing. The description of the encoder is kept last: it says that its files are complete. */
  private async download(signal: AbortSignal) {
    const { files, address, describe } = this.dependencies;
    const known = (await files.read(address)) as EncoderManifest | null;
    const manifest = known ?? (await describe());
    const wanted = this.filesOf(manifest);
    const total = (this.bytes = sum(wanted));
    this.progress = { done: 0, total };
    await files.complete(wanted, signal, (done) => (this.progress = { done, total }));
    signal.throwIfAborted();
    await files.note(address, manifest);
  }

  private filesOf({ files }: EncoderManifest): WantedFile[] {
    const { address, own } = this.dependencies;
    return [
      ...files.map(({ name, ...file }) => ({ ...file, address: `${address}/${name}` })),
      ...own,
    ];
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
    const isNew = await reader.prepare(replies.texts, (done, total) => {
      if (this.reader === reader) [this.stage, this.progress] = ['reading', { done, total }];
    });
    if (this.reader !== reader) return;
    replies.readWith(reader);
    const { epoch } = reader;
    if (isNew) await this.dependencies.remember({ epoch, features: reader.select(replies.texts) });
  }

  /** An encoder that has not been replaced meanwhile has failed. */
  private stop(running: RunningEncoder, error: unknown) {
    if (this.running === running) this.fail(error);
  }

  private fail(error: unknown) {
    this.end();
    [this.stage, this.problem] = ['stopped', problemOf(error)];
  }

  private end() {
    const { running } = this;
    [this.running, this.reader, this.reading] = [null, null, null];
    running?.close();
    this.replies?.readWith(HASHED);
  }
}

const sum = (files: readonly WantedFile[]) => files.reduce((total, { bytes }) => total + bytes, 0);

function problemOf(error: unknown): Problem {
  if (isUnreachable(error)) return 'lost';
  return error instanceof DamagedFile ? 'damaged' : reasonOf(error);
}
