import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/api';
import { DamagedFile } from '../../packages/text-encoder/src';
import type { BetterAnswers } from '../../src/lib/encoder/better_answers.svelte';
import { settle } from '../fake';
import { openScene, readReplies } from './scene';

type Scene = Awaited<ReturnType<typeof openScene>>;

/** Wait until the work that was started is done. */
const reach = (better: BetterAnswers, stage: string) => expect.poll(() => better.stage).toBe(stage);

async function switchOn(scene: Scene) {
  const better = scene.open();
  const replies = better.adopt(readReplies('When do you open?'));
  await better.switchOn();
  return { better, replies };
}

test('its size is known before it is switched on', async () => {
  const scene = await openScene();
  const better = scene.open();
  await better.measure();
  expect(better.bytes).toBe(scene.wanted.reduce((sum, { bytes }) => sum + bytes, 0));
  expect(scene.service.requests).toEqual([]);
  scene.isReachable = false;
  await better.measure();
  expect([better.stage, better.problem]).toEqual(['off', 'lost']);
});

test('once it is ready, the replies are found by its features', async () => {
  const scene = await openScene();
  const { better, replies } = await switchOn(scene);
  await reach(better, 'ready');
  expect(scene.encoders[0]!.requests).toEqual([['When do you open?', 'At nine.']]);
  await replies.answer('nepo uoy od nehW?'); // the same letters
  expect(scene.encoders[0]!.requests.at(-1)).toEqual(['nepo uoy od nehW?']);
  expect((await replies.answer('nepo uoy od nehW?')).reply?.id).toBe('hours');
});

test('an opinion about a question counts for its features, and can be taken back', async () => {
  const { better, replies } = await switchOn(await openScene());
  await reach(better, 'ready');
  const thumb = { input: 'nehW do you open?', label: 'hours', reward: 0 };
  replies.learn(thumb);
  expect((await replies.answer('When do you open?')).reply).toBeNull();
  replies.unlearn(thumb);
  expect((await replies.answer('When do you open?')).reply?.id).toBe('hours');
});

test('another visit needs no connection, and reads no text again', async () => {
  const scene = await openScene();
  await reach((await switchOn(scene)).better, 'ready');
  scene.isReachable = false;
  scene.service.failure = new ApiError('no answer');
  const better = scene.open();
  await better.load();
  better.adopt(readReplies('When do you open?', 'What are your hours?'));
  await reach(better, 'ready');
  expect(scene.encoders[1]!.requests).toEqual([['What are your hours?']]);
  expect(better.problem).toBeNull();
});

test('a newer file is read while the one before answers', async () => {
  const scene = await openScene();
  const { better } = await switchOn(scene);
  await reach(better, 'ready');
  const newer = better.adopt(readReplies('Is there wifi?'));
  await expect.poll(() => scene.encoders[0]!.requests.at(-1)).toEqual(['Is there wifi?']);
  await reach(better, 'ready');
  expect((await newer.answer('wifi there is?')).reply?.id).toBe('hours');
  expect([...scene.memory!.features.keys()]).toEqual(['Is there wifi?', 'At nine.']);
});

test('it is not loaded in a browser in which nobody has switched it on', async () => {
  const scene = await openScene();
  const better = scene.open();
  await better.load();
  better.adopt(readReplies());
  await settle();
  expect([better.stage, scene.service.requests]).toEqual(['off', []]);
});

test('switched off, it leaves nothing, and the replies are found by words again', async () => {
  const scene = await openScene();
  const { better, replies } = await switchOn(scene);
  await reach(better, 'ready');
  await better.switchOff();
  expect([better.stage, scene.caches.kept, scene.memory]).toEqual(['off', [], null]);
  expect(await scene.files().isWanted()).toBe(false);
  expect(scene.encoders[0]!.isClosed).toBe(true);
  expect((await replies.answer('nepo uoy od nehW?')).reply).toBeNull();
  expect((await replies.answer('When do you open?')).reply?.id).toBe('hours');
});

test('a download that is cancelled leaves nothing', async () => {
  const scene = await openScene();
  let answer: (value?: unknown) => void = () => {};
  scene.service.gate = new Promise((resolve) => (answer = resolve));
  const { better } = await switchOn(scene);
  await expect.poll(() => scene.service.requests.length).toBe(1);
  const off = better.switchOff();
  expect(better.isOn).toBe(false);
  answer();
  await off;
  expect([better.stage, scene.caches.caches.size, scene.encoders]).toEqual(['off', 0, []]);
});

test('a lost connection is named, and the download goes on when it is back', async () => {
  const scene = await openScene();
  scene.service.isCut = true;
  const { better } = await switchOn(scene);
  await reach(better, 'stopped');
  expect(better.problem).toBe('lost');
  better.resume();
  await reach(better, 'ready');
});

test.each([
  ['no_room', (scene: Scene) => scene.caches.open('encoder').then((it) => (it.isFull = true))],
  ['not_allowed', (scene: Scene) => (scene.service.failure = new ApiError('no', 403))],
  ['failed', (scene: Scene) => (scene.startFailure = new Error('no WebAssembly'))],
  ['damaged', (scene: Scene) => (scene.startFailure = new DamagedFile('no sha256'))],
] as const)('a problem is named, and it can be started again: %s', async (problem, cause) => {
  const scene = await openScene();
  await cause(scene);
  const { better } = await switchOn(scene);
  await reach(better, 'stopped');
  expect(better.problem).toBe(problem);
  better.resume(); // not for this reason
  expect(better.stage).toBe('stopped');
  [scene.service.failure, scene.startFailure] = [null, null];
  (await scene.caches.open('encoder')).isFull = false;
  better.start();
  await reach(better, 'ready');
});

test('when its worker fails, the replies are found by words', async () => {
  const scene = await openScene();
  const { better, replies } = await switchOn(scene);
  await reach(better, 'ready');
  scene.encoders[0]!.fail(new Error('out of memory'));
  await reach(better, 'stopped');
  expect(better.problem).toBe('failed');
  expect((await replies.answer('When do you open?')).reply?.id).toBe('hours');
});

test('a question waits for an encoder that starts, and for no other', async () => {
  const scene = await openScene();
  await scene.open().whenStarted(); // it is off
  const { better } = await switchOn(scene);
  expect(better.stage).toBe('downloading');
  await better.whenStarted();
  expect(better.stage).toBe('ready');
  await better.whenStarted();
});
