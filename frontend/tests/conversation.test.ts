import { expect, test } from 'vitest';
import { openAndAsk, openPage, settle } from './fake';

test('a question gets its reply and the version that gave it', async () => {
  const { conversation, turn } = await openAndAsk();
  expect([turn.question, turn.reply?.text, turn.version]).toEqual(['When do you open?', 'at nine', '42']);
  expect([conversation.draft, conversation.pending]).toEqual(['', null]);
});

test('a question that failed comes back into the composer, with what the server said', async () => {
  const { api, conversation } = await openPage();
  api.broken = 'no model is loaded';
  conversation.draft = 'When do you open?';
  await conversation.ask();
  expect(conversation.draft).toBe('When do you open?');
  expect(conversation.problem).toBe('no model is loaded');
  expect(conversation.turns).toEqual([]);
});

test('a failed question does not overwrite what was typed meanwhile', async () => {
  const { api, conversation } = await openPage();
  api.broken = 'no model is loaded';
  const asked = conversation.ask('When do you open?');
  conversation.draft = 'and when';
  await asked;
  expect(conversation.draft).toBe('and when');
});

test('a second question waits until the first has its reply', async () => {
  const { api, conversation } = await openPage();
  await Promise.all([conversation.ask('one'), conversation.ask('two')]);
  expect(api.predicted.map(({ instances }) => instances[0])).toEqual(['one']);
});

test('undo takes back the last feedback that stands, one reply after the other', async () => {
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
  expect(api.given.map(({ prediction_id }) => prediction_id)).toEqual(['p2', 'p2']);
  void conversation.act({ do: 'teach' });
  expect(conversation.last!.teachAsked).toBe(1);
});

test('what was learned from this session is counted, and what was taken back is not', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.choose(0);
  expect(conversation.learnedCount).toBe(0);
  api.publish();
  await settle();
  expect(conversation.learnedCount).toBe(2);
  await conversation.undo();
  expect(conversation.learnedCount).toBe(1);
});
