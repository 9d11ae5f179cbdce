/* The page's side of the worker that encodes texts. */

import { DamagedFile } from '../../../packages/text-encoder/src';
import type { EncoderReply, EncoderRequest, KeptFiles } from './encoder_worker';

/** The part of `Worker` that is used. */
export type WorkerPort = Pick<Worker, 'postMessage' | 'terminate' | 'onerror'>;

export class EncoderWorker {
  epoch = '';
  /** Rejects when no more requests are answered. */
  readonly ended: Promise<never>;

  private rejectEnded: (error: Error) => void = () => {};
  /** Why it has ended; null while it runs. */
  private error: Error | null = null;
  /** Called with that, for each request that waits. */
  private waiting = new Set<(error: Error) => void>();

  private constructor(private worker: WorkerPort) {
    this.ended = new Promise((_, reject) => (this.rejectEnded = reject));
    this.ended.catch(() => {}); // also where nobody waits for it
    worker.onerror = ({ message }) => this.end(new Error(`The worker has failed: ${message}`));
  }

  /** Rejects with a DamagedFile where a kept file is not as it was announced. signal: ends the worker, at any time. */
  static async start(worker: WorkerPort, files: KeptFiles, signal: AbortSignal): Promise<EncoderWorker> {
    const client = new EncoderWorker(worker);
    signal.addEventListener('abort', () => client.close(), { once: true });
    try {
      client.epoch = await client.request<string>({ load: files });
    } catch (error) {
      client.close();
      throw error;
    }
    return client;
  }

  /** int8 [384] for each text. */
  encode = (texts: readonly string[]): Promise<Int8Array[]> => this.request({ texts });

  close() {
    this.worker.terminate();
    this.end(new Error('The worker was ended.'));
  }

  private end(error: Error) {
    this.error ??= error;
    this.rejectEnded(this.error);
    for (const reject of this.waiting) reject(this.error);
  }

  private request<T>(request: EncoderRequest): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.error !== null) return reject(this.error);
      const { port1: here, port2: there } = new MessageChannel();
      const fail = (error: Error) => {
        here.close();
        this.waiting.delete(fail);
        reject(error);
      };
      here.onmessage = ({ data }: MessageEvent<EncoderReply>) => {
        if (!('value' in data))
          return fail(data.name === 'DamagedFile' ? new DamagedFile(data.error) : new Error(data.error));
        here.close();
        this.waiting.delete(fail);
        resolve(data.value as T);
      };
      this.waiting.add(fail);
      this.worker.postMessage(request, [there]);
    });
  }
}
