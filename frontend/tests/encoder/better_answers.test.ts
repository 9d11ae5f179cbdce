import { expect, test } from 'vitest';
import { ApiError, NO_ANSWER } from '../../src/lib/http';
import { DamagedFile } from '../../packages/text-encoder/src';
import type { BetterAnswers } from '../../src/lib/encoder/better_answers.svelte';
import { PreparedEncoder } from '../../src/lib/encoder/prepared';
import { settle } from '../fake';
import { openScene, readReplies } from './scene';

type Scene = Awaited<ReturnType<typeof openScene>>;

/** Wait until the work that was started is done. */
const reach = (better: BetterAnswers, stage: string) => expect.poll(() => better.stage).toBe(stage);

function openGate() {
  let open: (value?: unknown) => void = () => {};
  const gate = new Promise((resolve) => (open = resolve));
  return { gate, open };
}

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

test('a question waits for an encoder that starts, for 3 s at most, and for no download', async () => {
  const scene = await openScene();
  await scene.open().whenStarted(); // it is off
  const opened = [openGate(), openGate()];
  [scene.service.gate, scene.startGate] = [opened[0]!.gate, opened[1]!.gate];
  const { better } = await switchOn(scene);
  await reach(better, 'downloading');
  await better.whenStarted();
  expect(scene.pauses).toEqual([]);
  opened[0]!.open();
  await reach(better, 'starting');
  const waiting = better.whenStarted();
  expect(scene.pauses.map(({ ms }) => ms)).toEqual([3000]);
  scene.pauses[0]!.end();
  await waiting;
  expect(better.stage).toBe('starting');
  const started = better.whenStarted();
  opened[1]!.open();
  await started;
  expect(better.stage).toBe('ready');
});

test('another visit starts at once, so that its first question waits', async () => {
  const scene = await openScene();
  await reach((await switchOn(scene)).better, 'ready');
  const better = scene.open();
  better.adopt(readReplies('When do you open?'));
  await better.load();
  await better.whenStarted();
  expect(better.stage).toBe('ready');
});

test('where the browser refuses to keep files, it is off, says so when switched on, and can be left', async () => {
  const scene = await openScene();
  scene.caches.isRefused = true;
  const better = scene.open();
  await better.load();
  expect([better.stage, better.problem]).toEqual(['off', null]);
  await better.switchOn();
  expect([better.stage, better.problem]).toEqual(['off', 'failed']);
  await better.switchOff();
  expect(better.stage).toBe('off');
});

test('switching it off in one tab ends it in another that downloads', async () => {
  const scene = await openScene();
  const { gate, open } = openGate();
  scene.service.gate = gate;
  const { better } = await switchOn(scene);
  const other = scene.open();
  await other.load();
  await reach(other, 'downloading');
  await expect.poll(() => scene.service.requests.length).toBe(1); // one tab downloads, the other waits
  const off = better.switchOff();
  open();
  await off;
  await reach(other, 'off');
  await settle();
  expect([scene.caches.caches.size, scene.encoders, other.problem]).toEqual([0, [], null]);
});

test('it starts in the other tabs as well, and is downloaded once', async () => {
  const scene = await openScene();
  const other = scene.open();
  other.adopt(readReplies('When do you open?'));
  const { better } = await switchOn(scene);
  for (const each of [better, other]) await reach(each, 'ready');
  expect(scene.service.requests.length).toBe(4);
});

test.each([
  ['describeGate', 'downloading'],
  ['startGate', 'starting'],
  ['encodeGate', 'reading'],
] as const)('switching it off does not wait for what does not end: %s', async (gate, stage) => {
  const scene = await openScene();
  scene[gate] = new Promise(() => {});
  const { better } = await switchOn(scene);
  await reach(better, stage);
  await better.switchOff();
  expect([better.stage, better.problem, scene.caches.caches.size]).toEqual(['off', null, 0]);
  expect(scene.encoders.every(({ isClosed }) => isClosed)).toBe(true);
});

test('a damaged file that cannot be deleted is named all the same', async () => {
  const scene = await openScene();
  scene.startGate = new Promise(() => {});
  const { better } = await switchOn(scene);
  await expect.poll(() => scene.encoders.length).toBe(1);
  scene.caches.isRefused = true;
  scene.encoders[0]!.fail(new DamagedFile('no sha256'));
  await reach(better, 'stopped');
  expect(better.problem).toBe('damaged');
});

test('one text that is refused is read by words, and the encoder goes on', async () => {
  const scene = await openScene();
  const { better, replies } = await switchOn(scene);
  await reach(better, 'ready');
  const encoder = scene.encoders[0]!;
  encoder.refused = 'When do you OPEN?';
  expect((await replies.answer(encoder.refused)).reply?.id).toBe('hours');
  replies.learn({ input: encoder.refused, label: 'hours', reward: 0 });
  expect((await replies.answer(encoder.refused)).reply).toBeNull(); // its words are the same
  expect((await replies.answer('nepo uoy od nehW?')).reply?.id).toBe('hours');
  expect(better.stage).toBe('ready');
});

test('after a download that was cut it tries again by itself, after pauses that grow', async () => {
  const scene = await openScene();
  scene.service.failure = new ApiError(NO_ANSWER); // a page of a proxy
  const { better } = await switchOn(scene);
  for (let place = 0; place < 7; place += 1) {
    await expect.poll(() => scene.pauses.length).toBe(place + 1);
    expect([better.stage, better.problem]).toEqual(['stopped', 'lost']);
    if (place === 6) scene.service.failure = null;
    scene.pauses[place]!.end();
  }
  await reach(better, 'ready');
  expect(scene.pauses.map(({ ms }) => ms / 1000)).toEqual([2, 4, 8, 16, 32, 60, 60]);
});

test('while the connection is lost, it waits until that is back', async () => {
  const scene = await openScene();
  scene.service.isCut = true;
  const { better } = await switchOn(scene);
  await reach(better, 'stopped');
  scene.isLost = true;
  scene.pauses[0]!.end();
  await settle();
  expect(better.stage).toBe('stopped');
  better.resume();
  await reach(better, 'ready');
});

test('a pause has no effect once it was started by hand', async () => {
  const scene = await openScene();
  scene.service.isCut = true;
  const { better } = await switchOn(scene);
  await reach(better, 'stopped');
  scene.service.isCut = true;
  better.start();
  await expect.poll(() => scene.pauses.length).toBe(2);
  scene.pauses[0]!.end();
  await settle();
  expect(better.stage).toBe('stopped');
  scene.pauses[1]!.end();
  await reach(better, 'ready');
});

test('its size arrives too late to change what is shown once it is switched on', async () => {
  const scene = await openScene();
  const { gate, open } = openGate();
  scene.describeGate = gate;
  scene.isReachable = false;
  const better = scene.open();
  const measuring = better.measure();
  scene.describeGate = Promise.resolve();
  scene.service.failure = new ApiError('no', 403);
  scene.isReachable = true;
  await better.switchOn();
  await reach(better, 'stopped');
  scene.isReachable = false;
  open();
  await measuring;
  expect([better.stage, better.problem]).toEqual(['stopped', 'not_allowed']);
});

test('the features of many questions do not pile up', async () => {
  let requests = 0;
  const reader = new PreparedEncoder('letters', async (texts) => {
    requests += texts.length;
    return texts.map(() => Int8Array.of(1));
  });
  await reader.read(['When do you open?'], () => {});
  for (const count of [1, 2]) for (let place = 0; place < 100; place += 1) await reader.encode(`${count} ${place}`);
  expect(requests).toBe(201);
  await reader.encode('2 99');
  await reader.encode('When do you open?');
  expect(requests).toBe(201);
  await reader.encode('1 0');
  expect(requests).toBe(202);
});
