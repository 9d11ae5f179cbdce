import { expect, test } from 'vitest';
import { CANDIDATES, openAndAsk, settle } from './fake';

test('another reply is asked for besides all that the question got, and shown under it', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.act({ do: 'another' });
  await conversation.act({ do: 'another' });
  expect(api.predicted.at(-1)).toMatchObject({ conversation: 'f0', record: true, besides: ['r0', 'r1'] });
  const exchange = conversation.exchanges[0]!;
  expect(conversation.exchanges.length).toBe(1);
  expect([exchange.place, exchange.current.reply?.text, conversation.last?.id]).toEqual([2, 'at eleven', 'p3']);
});

test('when no reply is left it abstains, and there is none to ask for', async () => {
  const { api, conversation } = await openAndAsk();
  for (const _ of CANDIDATES) await conversation.another();
  expect([conversation.last?.reply, conversation.lastExchange?.hasMore]).toEqual([null, false]);
  const asked = api.predicted.length;
  await conversation.another();
  expect(api.predicted.length).toBe(asked);
});

test('the reply that is shown again is the one that is rated', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.another();
  conversation.lastExchange!.move(-1);
  conversation.lastExchange!.move(-1); // there is nothing before the first
  await conversation.act({ do: 'rate', reward: 1 });
  expect(api.given.at(-1)?.prediction_id).toBe('p1');
});

test('praise for another reply is told beside what the question got first', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.another();
  await conversation.last!.rate(1);
  api.reply = CANDIDATES[1]!;
  api.publish();
  await settle();
  expect(conversation.last!.latest!.steps.at(-1)).toBe('asked again now: before “at nine”, now “at ten”');
});

test('a stopped question returns into the composer, and its answer comes too late', async () => {
  const { api, conversation } = await openAndAsk();
  let aborted = false;
  const answer = await api.predict({ instances: ['x'], user: 'ada' });
  let answerNow = () => {};
  api.predict = (_, signal) => {
    signal?.addEventListener('abort', () => (aborted = true));
    return new Promise((resolve) => (answerNow = () => resolve(answer)));
  };
  const asked = conversation.ask('Can I print here?');
  expect(conversation.pending).toBe('Can I print here?');
  conversation.stop();
  answerNow();
  await asked;
  expect([aborted, conversation.pending, conversation.draft]).toEqual([true, null, 'Can I print here?']);
  expect([conversation.exchanges.length, conversation.problem]).toEqual([1, null]);
});

test('another reply that is not waited for any more leaves the question as it was', async () => {
  const { api, conversation } = await openAndAsk();
  api.predict = () => new Promise(() => {});
  void conversation.another();
  expect([conversation.busy, conversation.pending]).toEqual([true, null]);
  conversation.stop();
  expect([conversation.busy, conversation.draft, conversation.exchanges[0]?.turns.length]).toEqual([false, '', 1]);
});

test('an edited question goes back into the composer, and is asked as a new one', async () => {
  const { api, conversation } = await openAndAsk();
  conversation.edit(conversation.exchanges[0]!);
  expect(conversation.draft).toBe('When do you open?');
  conversation.draft += ' On Sundays?';
  await conversation.ask();
  expect(conversation.exchanges.map(({ question }) => question)).toEqual([
    'When do you open?',
    'When do you open? On Sundays?',
  ]);
  expect(api.predicted.at(-1)).not.toHaveProperty('besides');
});

test('a forgotten reply is told step by step, and comes back when it is wanted', async () => {
  const { api, turn } = await openAndAsk();
  const retirement = turn.retirement!;
  await retirement.forget();
  expect(retirement.steps).toEqual(['this reply is forgotten']);
  api.reply = CANDIDATES[1]!;
  api.publish();
  await settle();
  expect(retirement.steps.slice(1)).toEqual([
    'not given any more since version 43',
    'asked again now: before “at nine”, now “at ten”',
  ]);

  await retirement.restore();
  api.reply = CANDIDATES[0]!;
  api.publish();
  await settle();
  expect(api.calls.filter((call) => /retire|restore/.test(call))).toEqual(['retire r0', 'restore at nine']);
  expect(retirement.steps.at(-1)).toBe('asked again now: before “at ten”, now “at nine”');
});

test('undo brings back a reply that was forgotten last, and then takes back what was said before', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.forget();
  await conversation.act({ do: 'undo' });
  expect([turn.retirement?.forgotten, turn.reward]).toEqual([false, 0]);
  await conversation.act({ do: 'undo' });
  await conversation.act({ do: 'undo' });
  expect(api.calls.filter((call) => /^re(tire|store|tract)/.test(call))).toEqual(['retire r0', 'restore at nine', 'retract f1']);
});

test('what could not be forgotten is not undone', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(0);
  api.broken = 'the log is full';
  await turn.forget();
  api.broken = null;
  await conversation.undo();
  expect(api.calls.at(-1)).toBe('retract f1');
});

test('a reply that could not be forgotten is not called forgotten', async () => {
  const { api, conversation, turn } = await openAndAsk();
  api.broken = 'the log is full';
  await turn.retirement!.forget();
  expect([turn.retirement!.forgotten, turn.retirement!.steps, conversation.problem]).toEqual([
    false,
    [],
    'the log is full',
  ]);
});

test('why a reply was given is asked each time somebody wants to know', async () => {
  const { api, turn } = await openAndAsk();
  await turn.why.toggle();
  expect([turn.why.open, turn.why.answer?.model_version]).toEqual([true, '42']);
  await turn.why.toggle();
  api.broken = 'the store does not answer';
  await turn.why.toggle();
  expect(api.calls.filter((call) => call === 'why p1').length).toBe(2);
  expect([turn.why.answer, turn.why.problem]).toEqual([null, 'the store does not answer']);
});
