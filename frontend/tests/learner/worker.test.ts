import { expect, test } from 'vitest';
import { Learner } from '../../packages/learner/src/index.js';
import { LearnerWorker, type Call, type Reply, type WorkerPort } from '../../packages/learner/src/worker.js';
import { serve } from '../../packages/learner/src/worker_script.js';

/** A worker in this thread: the same script, and messages that are copied on their way. */
class LocalWorker implements WorkerPort {
  onmessage: ((event: MessageEvent<Reply>) => void) | null = null;
  onerror: ((event: ErrorEvent) => void) | null = null;
  isOver = false;
  private scope = {
    onmessage: null as ((event: MessageEvent<Call>) => void) | null,
    postMessage: (reply: Reply) => this.receive(reply),
  };

  constructor() {
    serve(this.scope);
  }

  postMessage(call: Call): void {
    this.scope.onmessage?.({ data: structuredClone(call) } as MessageEvent<Call>);
  }

  terminate(): void {
    this.isOver = true;
  }

  private receive(reply: Reply): void {
    if (!this.isOver) this.onmessage?.({ data: structuredClone(reply) } as MessageEvent<Reply>);
  }
}

const OPTIONS = { input: 'vector', size: 2, scale: 1 } as const;
const EXAMPLES = [
  { input: [1, 0], label: 'right' },
  { input: [0, 1], label: 'up' },
];

async function start() {
  const port = new LocalWorker();
  return { port, worker: await LearnerWorker.create(OPTIONS, port) };
}

test('a worker answers as a learner does', async () => {
  const { worker } = await start();
  const learner = Learner.create(OPTIONS);
  await worker.learn(EXAMPLES);
  learner.learn(EXAMPLES);
  expect(await worker.predict([1, 0])).toEqual(learner.predict([1, 0]));
  expect(await worker.fingerprint()).toBe(await learner.fingerprint());
  expect(await worker.write()).toEqual(learner.write());
  expect(await worker.contribution()).toEqual(learner.contribution());
  expect([await worker.classes(), await worker.count(), await worker.version()]).toEqual([['right', 'up'], 2, '']);
});

test('calls are answered in their order, without waiting for each', async () => {
  const { worker } = await start();
  const answers = await Promise.all([
    worker.count(),
    worker.learn(EXAMPLES),
    worker.count(),
    worker.unlearn(EXAMPLES.slice(1)),
    worker.count(),
  ]);
  expect(answers).toEqual([0, undefined, 2, undefined, 1]);
});

test('a file is read, merged and subtracted', async () => {
  const learner = Learner.create(OPTIONS);
  learner.learn(EXAMPLES);
  const worker = await LearnerWorker.read(learner.write(), learner.contribution(), new LocalWorker());
  await worker.merge(learner.contribution());
  expect(await worker.count()).toBe(4);
  await worker.subtract(learner.contribution());
  expect(await worker.fingerprint()).toBe(await learner.fingerprint());
  expect(await worker.contribution()).toEqual(learner.contribution());
});

test('what the learner refuses is refused with its reason', async () => {
  const { worker } = await start();
  await expect(worker.learn([{ input: [1], label: 'a' }])).rejects.toThrow('2 numbers, not 1');
  expect(await worker.count()).toBe(0);
});

test('a worker without a learner is ended', async () => {
  const port = new LocalWorker();
  await expect(LearnerWorker.read(new Uint8Array(3), undefined, port)).rejects.toThrow('safetensors');
  expect(port.isOver).toBe(true);
});

test('calls that a closed or failed worker leaves open are refused', async () => {
  const { port, worker } = await start();
  const [failed, closed] = [worker.fingerprint(), worker.count()];
  port.onerror?.({ message: 'out of memory' } as ErrorEvent);
  await expect(failed).rejects.toThrow('out of memory');
  worker.close();
  await expect(closed).rejects.toThrow();
  await expect(worker.count()).rejects.toThrow('closed');
});
