import { expect, test } from 'vitest';
import { FULL, openAndAsk, openPage, settle } from '../fake';

test('the first status sets the version, its offset and the learner', async () => {
  const { live } = await openPage();
  expect([live.version, live.learnedUntil, live.learner, live.streaming]).toEqual([
    '42',
    34,
    { state: 'running' },
    true,
  ]);
});

test('a publication updates the version, the freshness and the list of versions', async () => {
  const { api, live } = await openPage();
  api.publish();
  await settle();
  expect([live.version, live.freshness_ms, live.versions[0]?.version]).toEqual(['43', 61.2, '43']);
});

test('a learner that stopped or restarts pauses learning', async () => {
  const { api, live } = await openPage();
  for (const state of ['stopped', 'restarting', 'running', 'external'] as const) {
    api.learnerNow = { state };
    api.connect();
    expect(live.learnerPaused).toBe(state === 'stopped' || state === 'restarting');
  }
});

test('while events are interrupted, polling finds learned feedback', async () => {
  const { api, live, turn, endPause } = await openAndAsk();
  await turn.rate(1);
  api.disconnect();
  expect(live.streaming).toBe(false);

  api.learn();
  endPause();
  await settle();
  expect(turn.latest!.steps[1]).toBe('learned in version 43, 61 ms later');
});

test('a stream that breaks repeatedly starts one poll', async () => {
  const { api, endPause } = await openPage();
  const polls = () => api.calls.filter((call) => call === 'learner').length;
  const before = polls();
  for (let attempt = 0; attempt < 3; attempt += 1) api.disconnect();
  endPause();
  await settle();
  expect(polls()).toBe(before + 1);
});

test('polling stops once events are back', async () => {
  const { api, endPause } = await openPage();
  api.disconnect();
  await settle();
  api.connect();
  await settle();
  const before = api.calls.length;
  endPause();
  await settle();
  expect(api.calls.length).toBe(before);
});

test('feedback learned while events were interrupted is found when they are back', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  api.disconnect();
  api.learn();
  api.connect();
  await settle();
  expect(turn.latest!.learned?.version).toBe('43');
});

test('a failed status request is repeated at the next event', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  api.broken = 'starting';
  api.publish();
  await settle();
  api.broken = null;
  api.publish();
  await settle();
  expect(turn.latest!.learned?.version).toBe('43');
});

test('rolling back makes the older version live, and an error is shown', async () => {
  const { api, conversation, live } = await openPage();
  await conversation.rollBack('41');
  expect([live.version, live.learnedUntil]).toEqual(['41', 30]);
  api.broken = 'version 40 was pruned';
  await conversation.rollBack('40');
  expect(conversation.problem).toBe(FULL);
  expect(live.version).toBe('41');
});

test('feedback to a frozen model says why it is not learned', async () => {
  const { api, live } = await openPage();
  expect(live.holdReason).toBe(null);
  api.freeze({ since: '2026-11-21T09:00:00Z', reason: 'the guard: worse' });
  expect(live.holdReason).toBe('kept, and learned once learning continues (stopped: the guard: worse)');
  api.freeze(null);
  expect(live.holdReason).toBe(null);
});

test('versions that were set aside are known until an operator removes them', async () => {
  const { api, live } = await openPage();
  const notice = { at: '2026-11-21T09:00:00Z', reason: 'the log ends at offset 170', labels: [] };
  const setAside = { ...notice, versions: ['41', '42'], learned_again: false };
  api.setAside(setAside);
  expect(live.setAside).toEqual(setAside);
  api.setAside(null);
  expect(live.setAside).toBe(null);
});
