import { expect, test } from 'vitest';
import { DamagedFile } from '../../packages/text-encoder/src';
import { EncoderWorker, type WorkerPort } from '../../src/lib/encoder/worker_client';

const FILES = { cache: 'encoder', manifest: '/encoder', runtime: '/runtime' };

/** A worker that answers with what `reply` returns. */
class FakeWorker {
  isOver = false;
  onerror: WorkerPort['onerror'] = null;

  constructor(private reply: (request: Record<string, unknown>) => unknown) {}

  postMessage(request: Record<string, unknown>, [port]: MessagePort[]) {
    const reply = this.reply(request);
    if (reply !== undefined) port!.postMessage(reply);
  }

  terminate() {
    this.isOver = true;
  }
}

const start = (worker: FakeWorker, signal = new AbortController().signal) =>
  EncoderWorker.start(worker as unknown as WorkerPort, FILES, signal);

test('it loads the files that are named, and answers with the features of texts', async () => {
  const requests: unknown[] = [];
  const worker = new FakeWorker((request) => {
    requests.push(request);
    return { value: 'load' in request ? 'minilm' : [Int8Array.of(1)] };
  });
  const encoder = await start(worker);
  expect(encoder.epoch).toBe('minilm');
  expect(await encoder.encode(['open?'])).toEqual([Int8Array.of(1)]);
  expect(requests).toEqual([{ load: FILES }, { texts: ['open?'] }]);
});

test('a damaged file is known as one, and ends the worker', async () => {
  const worker = new FakeWorker(() => ({ error: 'no sha256', name: 'DamagedFile' }));
  await expect(start(worker)).rejects.toBeInstanceOf(DamagedFile);
  expect(worker.isOver).toBe(true);
});

test('a request that waits is rejected when the worker fails or is closed', async () => {
  for (const end of ['fail', 'close']) {
    const worker = new FakeWorker((request) => ('load' in request ? { value: 'e' } : undefined));
    const encoder = await start(worker);
    const waiting = encoder.encode(['open?']);
    if (end === 'fail') worker.onerror?.call(null as never, { message: 'memory' } as ErrorEvent);
    else encoder.close();
    await expect(waiting).rejects.toThrow(end === 'fail' ? 'memory' : 'ended');
    await expect(encoder.ended).rejects.toThrow();
  }
});

test('a signal ends it while it starts, and afterwards', async () => {
  for (const isLoaded of [false, true]) {
    const worker = new FakeWorker(() => (isLoaded ? { value: 'minilm' } : undefined));
    const abort = new AbortController();
    const starting = start(worker, abort.signal);
    if (isLoaded) await starting;
    abort.abort();
    if (!isLoaded) await expect(starting).rejects.toThrow('ended');
    expect(worker.isOver).toBe(true);
  }
});

test('a request after its end is rejected', async () => {
  const encoder = await start(new FakeWorker(() => ({ value: 'minilm' })));
  encoder.close();
  await expect(encoder.encode(['open?'])).rejects.toThrow('ended');
});
