import { expect, test } from 'vitest';
import { FULL, openAndAsk, openPage, settle } from '../fake';
import { FIRST_ANSWER_TIMEOUT_MS } from '../../src/lib/chat/conversation.svelte';

test('a question gets a reply and the version that gave it', async () => {
  const { conversation, turn } = await openAndAsk();
  expect([turn.question, turn.reply?.text, turn.version]).toEqual(['When do you open?', 'at nine', '42']);
  expect([conversation.draft, conversation.pending]).toEqual(['', null]);
});

test('a failed question returns to the composer with the error', async () => {
  const { api, conversation } = await openPage();
  api.broken = 'no model is loaded';
  conversation.draft = 'When do you open?';
  await conversation.ask();
  expect(conversation.draft).toBe('When do you open?');
  expect(conversation.problem).toBe(FULL);
  expect(conversation.exchanges).toEqual([]);
});

test('a failed question does not overwrite what was typed meanwhile', async () => {
  const { api, conversation } = await openPage();
  api.broken = 'no model is loaded';
  const answered = conversation.ask('When do you open?');
  conversation.draft = 'and when';
  await answered;
  expect(conversation.draft).toBe('and when');
});

test('a second question waits until the first has its reply', async () => {
  const { api, conversation } = await openPage();
  await Promise.all([conversation.ask('one'), conversation.ask('two')]);
  expect(api.predicted.map(({ instances }) => instances[0])).toEqual(['one']);
});

test('undo takes back the last active feedback, reply by reply', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(1);
  await conversation.ask('Can I print here?');
  await conversation.last!.rate(0);

  await conversation.act({ do: 'undo' });
  await conversation.act({ do: 'undo' });
  await conversation.act({ do: 'undo' });
  expect(api.calls.filter((call) => call.startsWith('retract'))).toEqual(['retract f2', 'retract f1']);
});

test('the keys act on the last reply', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.ask('Can I print here?');
  await conversation.act({ do: 'rate', reward: 0 });
  await conversation.act({ do: 'choose', index: 2 });
  expect(api.sentFeedback.map(({ prediction_id }) => prediction_id)).toEqual(['p2', 'p2']);
  void conversation.act({ do: 'teach' });
  expect(conversation.last!.teachRequests).toBe(1);
});

test('learned feedback of this session is counted, and what was replaced or retracted is not', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.choose(0);
  await conversation.ask('When do you close?');
  await conversation.last!.rate(1);
  expect(conversation.learnedCount).toBe(0);
  api.publish();
  await settle();
  expect(conversation.learnedCount).toBe(2);
  await conversation.undo();
  expect(conversation.learnedCount).toBe(1);
});

test('only the first answer waits for the service to learn', async () => {
  const { api, conversation } = await openPage();
  await api.giveFeedback({ id: 'before', prediction_id: 'p', reward: 1 });
  const answered = conversation.ask('When do you open?');
  await settle();
  expect(api.predicted.map(({ min_offset, timeout_ms }) => [min_offset, timeout_ms])).toEqual([
    [35, FIRST_ANSWER_TIMEOUT_MS],
    [undefined, undefined], // repeated, because it was not learned in time
  ]);
  await answered;
  expect([conversation.last?.reply?.text, conversation.waitsForLearning, conversation.problem]).toEqual([
    'at nine',
    false,
    null,
  ]);

  await conversation.ask('Can I print here?');
  expect(api.predicted).toHaveLength(3);
  expect(api.predicted[2]?.min_offset).toBeUndefined();
});

test('the first answer does not wait for a stopped learner', async () => {
  const { api, conversation } = await openPage();
  await api.giveFeedback({ id: 'before', prediction_id: 'p', reward: 1 });
  api.learnerNow = { state: 'stopped' };
  api.connect();
  await conversation.ask('When do you open?');
  expect(api.predicted.map(({ min_offset }) => min_offset)).toEqual([undefined]);
});

test('the first answer does not wait for a frozen model', async () => {
  const { api, conversation } = await openPage();
  await api.giveFeedback({ id: 'before', prediction_id: 'p', reward: 1 });
  api.isFrozen = true;
  await conversation.ask('When do you open?');
  expect(api.predicted.map(({ min_offset }) => min_offset)).toEqual([undefined]);
});

test('the first answer does not wait after a rollback', async () => {
  const { api, live, conversation } = await openPage();
  await live.rollBack('41');
  live.versions = [...live.versions, { ...live.versions[0]!, version: '42', live: false, learned_until: 34 }];
  await conversation.ask('When do you open?');
  expect(api.predicted.map(({ min_offset }) => min_offset)).toEqual([undefined]);
});

test('the page says that the first answer waits for learning', async () => {
  const { api, conversation } = await openPage();
  await api.giveFeedback({ id: 'before', prediction_id: 'p', reward: 1 });
  let answer = () => {};
  const { predict } = api;
  api.predict = async (...request) => {
    await new Promise<void>((resolve) => (answer = resolve));
    api.publish();
    return predict.apply(api, request);
  };
  const answered = conversation.ask('When do you open?');
  await settle();
  expect([conversation.waitsForLearning, conversation.pending]).toEqual([true, 'When do you open?']);
  answer();
  await answered;
  expect([conversation.waitsForLearning, conversation.last?.version]).toEqual([false, '43']);
});
