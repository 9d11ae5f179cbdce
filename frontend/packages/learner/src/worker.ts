/* A Learner in a worker, so that a page stays responsive while weights of many classes are solved.

   page --calls--> worker: Learner --replies--> page
*/

import { LearnerError } from './errors.js';
import type { CohortTerms, Example, Learner } from './learner.js';
import type { Answer } from './judgement.js';
import type { CreateOptions } from './options.js';

type Member =
  | 'predict'
  | 'learn'
  | 'unlearn'
  | 'merge'
  | 'subtract'
  | 'write'
  | 'contribution'
  | 'contributedValues'
  | 'fingerprint'
  | 'classes'
  | 'version'
  | 'count';

export interface Call {
  id: number;
  method: 'create' | 'read' | Member;
  args: unknown[];
}

export type Reply = { id: number; value: unknown } | { id: number; error: string };

interface Waiting {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

type Result<Name extends Member> = Learner[Name] extends (...args: never) => infer Value
  ? Awaited<Value>
  : Learner[Name];

/** What `new Worker` returns, as far as it is used. */
export type WorkerPort = Pick<Worker, 'postMessage' | 'terminate' | 'onmessage' | 'onerror'>;

/** The methods of a Learner, each of which answers later. Calls are answered in their order. */
export class LearnerWorker {
  private waiting = new Map<number, Waiting>();
  private calls = 0;
  private over = ''; // why no call is answered any more

  private constructor(private worker: WorkerPort) {
    worker.onmessage = ({ data }: MessageEvent<Reply>) => this.take(data);
    worker.onerror = ({ message }) => this.fail(`the worker has failed: ${message}`);
  }

  /** See `Learner.create`. worker: that runs the script of this package; started here by default. */
  static async create(options: CreateOptions, worker = startWorker()): Promise<LearnerWorker> {
    return LearnerWorker.start(worker, 'create', [options]);
  }

  /** See `Learner.read`. */
  static async read(file: Uint8Array, own?: Uint8Array, worker = startWorker()): Promise<LearnerWorker> {
    return LearnerWorker.start(worker, 'read', [file, own]);
  }

  private static async start(worker: WorkerPort, method: 'create' | 'read', args: unknown[]): Promise<LearnerWorker> {
    const client = new LearnerWorker(worker);
    try {
      await client.send(method, args);
    } catch (error) {
      client.close();
      throw error;
    }
    return client;
  }

  predict(input: ArrayLike<number>): Promise<Answer> {
    return this.call('predict', input);
  }

  learn(examples: readonly Example[]): Promise<void> {
    return this.call('learn', examples);
  }

  unlearn(examples: readonly Example[]): Promise<void> {
    return this.call('unlearn', examples);
  }

  merge(file: Uint8Array): Promise<void> {
    return this.call('merge', file);
  }

  subtract(file: Uint8Array): Promise<void> {
    return this.call('subtract', file);
  }

  write(): Promise<Uint8Array> {
    return this.call('write');
  }

  contribution(): Promise<Uint8Array> {
    return this.call('contribution');
  }

  contributedValues(cohort: CohortTerms): Promise<Float64Array> {
    return this.call('contributedValues', cohort);
  }

  fingerprint(): Promise<string> {
    return this.call('fingerprint');
  }

  classes(): Promise<string[]> {
    return this.call('classes');
  }

  version(): Promise<string> {
    return this.call('version');
  }

  count(): Promise<number> {
    return this.call('count');
  }

  /** End the worker. Calls that are not answered yet are refused. */
  close(): void {
    this.worker.terminate();
    this.fail('the worker was closed');
  }

  private call<Name extends Member>(method: Name, ...args: unknown[]): Promise<Result<Name>> {
    return this.send(method, args) as Promise<Result<Name>>;
  }

  private send(method: Call['method'], args: unknown[]): Promise<unknown> {
    if (this.over) return Promise.reject(new LearnerError(this.over));
    return new Promise((resolve, reject) => {
      this.calls += 1;
      this.waiting.set(this.calls, { resolve, reject });
      this.worker.postMessage({ id: this.calls, method, args } satisfies Call);
    });
  }

  private take(reply: Reply): void {
    const waiting = this.waiting.get(reply.id);
    this.waiting.delete(reply.id);
    if ('error' in reply) waiting?.reject(new LearnerError(reply.error));
    else waiting?.resolve(reply.value);
  }

  private fail(reason: string): void {
    this.over = reason;
    for (const call of this.waiting.values()) call.reject(new LearnerError(reason));
    this.waiting.clear();
  }
}

const startWorker = (): WorkerPort => new Worker(new URL('./worker_script.ts', import.meta.url), { type: 'module' });
