/* The page's side of the worker that encodes texts. */

import { DamagedFile } from '../../../packages/text-encoder/src';
import type { EncoderReply, EncoderRequest, KeptFiles } from './encoder_worker';

/** The part of `Worker` that is used. */
export type WorkerPort = Pick<Worker, 'postMessage' | 'terminate' | 'onerror'>;

export class EncoderWorker {
  epoch = '';
  private end: (error: Error) => void = () => {};
  /** Rejects when no more requests are answered. */
  readonly ended: Promise<never>;

  private constructor(private worker: WorkerPort) {
    this.ended = new Promise((_, reject) => (this.end = reject));
    this.ended.catch(() => {}); // also where no request waits
    worker.onerror = ({ message }) => this.end(new Error(`The worker has failed: ${message}`));
  }

  /** Rejects with a DamagedFile where a kept file is not as it was announced. */
  static async start(worker: WorkerPort, files: KeptFiles): Promise<EncoderWorker> {
    const client = new EncoderWorker(worker);
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

  private request<T>(request: EncoderRequest): Promise<T> {
    const { port1: here, port2: there } = new MessageChannel();
    const reply = new Promise<T>((resolve, reject) => {
      here.onmessage = ({ data }: MessageEvent<EncoderReply>) => {
        here.close();
        if ('value' in data) resolve(data.value as T);
        else
          reject(data.name === 'DamagedFile' ? new DamagedFile(data.error) : new Error(data.error));
      };
    });
    this.worker.postMessage(request, [there]);
    return Promise.race([reply, this.ended]);
  }
}
