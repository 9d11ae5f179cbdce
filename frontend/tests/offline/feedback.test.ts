import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import type { Api } from '../../src/lib/api/chat';
import { DeviceApi } from '../../src/lib/chat/device_api';
import { FeedbackQueue } from '../../src/lib/offline/feedback';
import { LocalModel } from '../../src/lib/offline/local_model.svelte';
import type { FeedbackRequest } from '../../src/lib/schema';
import { FakeApi, settle } from '../fake';
import { openBrowser } from './scene.svelte';

const STAR = { id: 'f-star', prediction_id: 'p1', label: 'star' } as FeedbackRequest;

/** Feedback of a page, which sends it directly first. */
async function openPage({ isLocal = false } = {}) {
  const { service, browser, queue } = await openBrowser();
  const connection = { lost: false };
  const local = new LocalModel({
    model: 'digits',
    store: browser.store,
    queue,
    owner: () => 'ada',
    now: () => new Date('2026-11-26T12:00:00Z'),
    mayKeep: () => false,
    read: () => ({ learnedUntil: 0, learn: () => {}, unlearn: () => {} }),
    api: { exported: async () => null },
    isSimpler: () => false,
  });
  const feedback = new FeedbackQueue({
    online: {
      giveFeedback: (given) => service.give('digits', given),
      retract: (id) => service.retract('digits', id),
    },
    queue,
    local,
    connection,
    newId: () => 'r1',
    describe: (body) => ({ kind: 'name', title: 'star', body, example: null, isLocal }),
    exampleOf: () => null,
  });
  return { service, queue, connection, feedback };
}

test('what arrived although its answer was lost is retracted when it is taken back', async () => {
  const { service, queue, connection, feedback } = await openPage();
  service.losesAnswer = true;
  service.isReachableAfterwards = false;
  await feedback.giveFeedback(STAR);
  await queue.flush();
  connection.lost = true;
  await feedback.retract('f-star');
  service.isReachable = true;
  await queue.flush();
  expect(service.log).toEqual(['ada: star', 'retract f-star']);
});

test('once all feedback is kept, the new one has taken the place of the one before', async () => {
  const { queue, connection, feedback } = await openPage({ isLocal: true });
  connection.lost = true;
  await feedback.giveFeedback(STAR);
  void feedback.giveFeedback({ ...STAR, id: 'f-moon', label: 'moon' });
  await feedback.whenStored();
  expect(queue.waiting.map(({ id }) => id)).toEqual(['f-moon']);
});

test('a retraction that arrived although its answer was lost cannot be dropped', async () => {
  const { service, queue, feedback } = await openPage();
  await feedback.giveFeedback(STAR);
  service.losesAnswer = true;
  service.isReachableAfterwards = false;
  await feedback.retract('f-star');
  await queue.flush();
  await queue.remove(queue.waiting[0]!);
  expect(queue.waiting.map(({ of }) => of)).toEqual(['f-star']);
});

test('feedback that was never sent is dropped when it is taken back', async () => {
  const { service, queue, connection, feedback } = await openPage();
  [service.isReachable, connection.lost] = [false, true];
  await feedback.giveFeedback(STAR);
  await feedback.retract('f-star');
  expect([service.requests, queue.items]).toEqual([0, []]);
});

test('the chat gives feedback through the device, which knows what was sent before', async () => {
  const online = new FakeApi();
  const given: string[] = [];
  const device = {
    ...online,
    giveFeedback: async ({ id }: FeedbackRequest) => (given.push(id), {}),
  };
  const { requests } = new DeviceApi(online, async () => device as unknown as Api);
  await requests.giveFeedback(STAR);
  expect([given, online.sentFeedback]).toEqual([['f-star'], []]);
});

test('the chat gives feedback directly where the device cannot be loaded', async () => {
  const online = new FakeApi();
  const { requests } = new DeviceApi(online, () => Promise.reject(new ApiError('no answer')));
  await requests.giveFeedback(STAR);
  await settle();
  expect(online.sentFeedback).toEqual([STAR]);
});
