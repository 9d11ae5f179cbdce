import { expect, test } from 'vitest';
import { ApiError, FileTooLarge, type ExportedFile } from '../../src/lib/http';
import { LocalModel, type LocalLearner } from '../../src/lib/offline/local_model.svelte';
import type { LocalExample } from '../../src/lib/offline/store';
import { settle } from '../fake';
import { named, openBrowser, openCaller } from './scene.svelte';

/** Counts the examples of each label. */
class Counter implements LocalLearner {
  counts: Record<string, number> = {};
  /** Whether its scales were fitted to examples, so that none can be taken back. */
  isFitted = false;

  constructor(readonly learnedUntil: number) {}

  learn({ label }: LocalExample) {
    if (label === 'one too many') throw new Error('more than 2 classes');
    this.counts[label] = (this.counts[label] ?? 0) + 1;
  }

  unlearn({ label }: LocalExample) {
    if (this.isFitted) throw new Error('nothing can be subtracted');
    this.counts[label]! -= 1;
    if (this.counts[label] === 0) delete this.counts[label];
  }
}

async function openModel({ mayKeep = true } = {}) {
  const caller = openCaller(mayKeep);
  const { service, browser, queue } = await openBrowser();
  const files = {
    learnedUntil: 0,
    failure: null as Error | null,
    requests: 0,
    etags: [] as string[],
    /** What the kept file becomes; rejects where there is no delta of it. */
    update: async (): Promise<ExportedFile | null> => Promise.reject(new ApiError('gone', 404)),
  };
  const open = async () => {
    const model = new LocalModel({
      model: 'digits',
      store: browser.store,
      api: {
        exported: async (_, version, etag) => {
          files.requests += 1;
          files.etags.push(etag);
          if (files.failure) throw files.failure;
          const found = `"${files.learnedUntil}"`;
          return etag === found ? null : { file: Uint8Array.of(files.learnedUntil), etag: found, version };
        },
      },
      update: () => files.update(),
      queue,
      owner: () => caller.owner,
      mayKeep: () => caller.mayKeep,
      read: ([learnedUntil]) => new Counter(learnedUntil!),
      isSimpler: () => false,
      now: () => new Date('2026-11-26T12:00:00Z'),
    });
    await model.load();
    return model;
  };
  return { service, browser, queue, caller, files, open, model: await open() };
}

test('a version is kept for the next time that the page is opened', async () => {
  const { model, open } = await openModel();
  expect([model.version, model.learner]).toEqual([null, null]);
  await model.keep('7');
  const again = await open();
  expect([again.version, again.learner?.learnedUntil]).toEqual(['7', 0]);
});

test('a file that has not changed stays as it is', async () => {
  const { model, files } = await openModel();
  await model.keep('7');
  const { learner } = model;
  await model.keep('8');
  expect([files.requests, model.version, model.learner === learner]).toEqual([2, '7', true]);
});

test('what waits is learned at once, and un-learned when it is taken back', async () => {
  const { model, queue } = await openModel();
  await model.keep('7');
  await queue.give('digits', named('star'));
  await queue.give('digits', named('heart'));
  await queue.give('other', named('house'));
  expect(model.learner?.counts).toEqual({ star: 1, heart: 1 });
  await queue.retract('digits', 'f-star');
  expect(model.learner?.counts).toEqual({ heart: 1 });
});

test('what another tab teaches is learned here as well', async () => {
  const { model, browser } = await openModel();
  await model.keep('7');
  const other = await browser.openTab();
  await other.give('digits', named('star'));
  await settle();
  expect(model.learner?.counts).toEqual({ star: 1 });
});

test('an item is learned once: here until the kept version has learned it', async () => {
  const { model, queue, files } = await openModel();
  await model.keep('7');
  await queue.give('digits', named('star')); // its offset becomes 1
  await queue.give('digits', named('heart')); // 2
  await queue.flush();
  expect(model.learner?.counts).toEqual({ star: 1, heart: 1 });
  await settle(); // until it is known what became of them
  files.learnedUntil = 1;
  await model.keep('8');
  expect(model.learner?.counts).toEqual({ heart: 1 });
  expect(queue.items.map(({ title }) => title)).toEqual(['heart']);
});

test('a refused item is un-learned', async () => {
  const { model, queue, service } = await openModel();
  await model.keep('7');
  service.refused.set('star', new ApiError('no', 403));
  await queue.give('digits', named('star'));
  expect(model.learner?.counts).toEqual({ star: 1 });
  await queue.flush();
  expect(model.learner?.counts).toEqual({});
});

test('an example that the learner refuses is kept for the service, and the others are learned', async () => {
  const { model, queue } = await openModel();
  await model.keep('7');
  for (const label of ['one too many', 'star']) await queue.give('digits', named(label));
  expect(model.learner?.counts).toEqual({ star: 1 });
  expect(queue.waiting.length).toBe(2);
  await queue.retract('digits', 'f-one too many');
  expect(model.learner?.counts).toEqual({ star: 1 });
});

test('a learner that cannot un-learn starts again from the kept version', async () => {
  const { model, queue } = await openModel();
  await model.keep('7');
  for (const label of ['star', 'heart']) await queue.give('digits', named(label));
  model.learner!.isFitted = true;
  await queue.retract('digits', 'f-star');
  expect(model.learner?.counts).toEqual({ heart: 1 });
});

test('what the kept version has learned is un-learned while its retraction waits', async () => {
  const { model, queue } = await openModel();
  await model.keep('7');
  model.learner!.learn(named('star').example!); // as the file would have it
  await queue.retract('digits', 'learned before', named('star').example);
  expect(model.learner?.counts).toEqual({});
});

test('what the service has accepted counts until a version with it is kept', async () => {
  const { model, queue, files } = await openModel();
  await model.keep('7');
  const { kind, title, example } = named('star');
  await model.note(
    { id: 'f1', kind, title, example, of: null, body: null },
    { id: 'f1', offset: 9, status: 'accepted' },
  );
  expect(model.learner?.counts).toEqual({ star: 1 });
  expect(queue.waiting).toEqual([]);
  files.learnedUntil = 9;
  await model.keep('8');
  expect([model.learner?.counts, queue.items]).toEqual([{}, []]);
});

test('without the right to the file nothing is requested, and nothing sent is kept', async () => {
  const { model, queue, files } = await openModel({ mayKeep: false });
  await queue.give('digits', named('star'));
  await queue.flush();
  await settle();
  await model.keep('7');
  expect([files.requests, model.missing, model.version]).toEqual([0, 'not_allowed', null]);
  expect(queue.items).toEqual([]);
});

test('a version answers nobody but the caller for whom it was kept', async () => {
  const { model, caller, files } = await openModel();
  await model.keep('7');
  caller.owner = 'bob';
  expect([model.version, model.learner]).toEqual([null, null]);
  await model.keep('7');
  expect([files.etags, model.version]).toEqual([['', ''], '7']);
});

test('a version is deleted once the caller may not have it any more', async () => {
  const { model, caller, open, browser } = await openModel();
  await model.keep('7');
  caller.mayKeep = false;
  expect((await open()).learner).toBeNull();
  expect(await browser.store.model('ada', 'digits')).toBeNull();
  await model.keep('8');
  expect([model.learner, model.missing]).toEqual([null, 'not_allowed']);
});

test('a version is deleted when the service says that the caller may not have it', async () => {
  const { model, files, browser } = await openModel();
  await model.keep('7');
  files.failure = new ApiError('needs the scope curate', 403);
  await model.keep('8');
  expect([model.learner, model.missing]).toEqual([null, 'not_allowed']);
  expect(await browser.store.model('ada', 'digits')).toBeNull();
});

test.each([
  [new FileTooLarge('"3"'), 'too_large'],
  [new DOMException('full', 'QuotaExceededError'), 'no_room'],
  [new ApiError('no answer'), 'failed'],
] as const)('a version that cannot be kept leaves the one before: %s', async (failure, reason) => {
  const { model, files } = await openModel();
  await model.keep('7');
  files.failure = failure;
  files.learnedUntil = 3;
  await model.keep('8');
  expect([model.version, model.missing]).toEqual(['7', reason]);
  files.failure = null;
  files.learnedUntil = 4;
  await model.keep('9');
  expect([model.version, model.missing]).toEqual(['9', null]);
});

test('a file that was too large is not requested again before it changes', async () => {
  const { model, files } = await openModel();
  await model.keep('7');
  files.failure = new FileTooLarge('"3"');
  files.learnedUntil = 3;
  await model.keep('8');
  files.failure = null;
  await model.keep('8');
  expect([files.etags.at(-1), model.version, model.missing]).toEqual(['"3"', '7', 'too_large']);
});

test('a kept version becomes the next one by what changed', async () => {
  const { model, files, open } = await openModel();
  await model.keep('7');
  files.update = async () => ({ file: Uint8Array.of(5), etag: '"5"', version: '8' });
  await model.keep('8');
  expect([files.requests, model.version, model.learner?.learnedUntil]).toEqual([1, '8', 5]);
  expect((await open()).version).toBe('8');
});

test('a kept version that is the newest already stays as it is', async () => {
  const { model, files } = await openModel();
  await model.keep('7');
  files.update = async () => null;
  await model.keep('8');
  expect([files.requests, model.version]).toEqual([1, '7']);
});

test.each([
  ['there is no delta', async () => Promise.reject(new ApiError('gone', 404))],
  ['the result is too large', async () => ({ file: new Uint8Array(8_000_001), etag: '"5"', version: '8' })],
])('the whole file is loaded where %s', async (_, update) => {
  const { model, files } = await openModel();
  await model.keep('7');
  [files.update, files.learnedUntil] = [update, 5];
  await model.keep('8');
  expect([files.requests, model.version, model.learner?.learnedUntil]).toEqual([2, '8', 5]);
});
