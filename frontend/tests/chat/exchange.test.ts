import { expect, test } from 'vitest';
import { CANDIDATES, openAndAsk, settle } from '../fake';

test('another reply excludes all earlier ones and is shown in the same exchange', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.act({ do: 'another' });
  await conversation.act({ do: 'another' });
  expect(api.predicted.at(-1)).toMatchObject({
    conversation: 'f0',
    record: true,
    exclude: ['r0', 'r1'],
  });
  const exchange = conversation.exchanges[0]!;
  expect(conversation.exchanges.length).toBe(1);
  expect([exchange.place, exchange.current.reply?.text, conversation.last?.id]).toEqual([
    2,
    'at eleven',
    'p3',
  ]);
});

test('when no reply is left the model abstains and no other reply can be requested', async () => {
  const { api, conversation } = await openAndAsk();
  for (const _ of CANDIDATES) await conversation.another();
  expect([conversation.last?.reply, conversation.lastExchange?.hasMore]).toEqual([null, false]);
  const requests = api.predicted.length;
  await conversation.another();
  expect(api.predicted.length).toBe(requests);
});

test('feedback rates the reply that is shown', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.another();
  conversation.lastExchange!.move(-1);
  conversation.lastExchange!.move(-1); // there is nothing before the first
  await conversation.act({ do: 'rate', reward: 1 });
  expect(api.sentFeedback.at(-1)?.prediction_id).toBe('p1');
});

test('feedback on another reply is compared with the first reply', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.another();
  await conversation.last!.rate(1);
  api.reply = CANDIDATES[1]!;
  api.publish();
  await settle();
  expect(conversation.last!.latest!.steps.at(-1)).toBe(
    'asked again now: before “at nine”, now “at ten”',
  );
});

test('a stopped question returns to the composer and its late answer is ignored', async () => {
  const { api, conversation } = await openAndAsk();
  let aborted = false;
  const answer = await api.predict({ instances: ['x'] });
  let answerNow = () => {};
  api.predict = (_, signal) => {
    signal?.addEventListener('abort', () => (aborted = true));
    return new Promise((resolve) => (answerNow = () => resolve(answer)));
  };
  const answered = conversation.ask('Can I print here?');
  expect(conversation.pending).toBe('Can I print here?');
  conversation.stop();
  answerNow();
  await answered;
  expect([aborted, conversation.pending, conversation.draft]).toEqual([
    true,
    null,
    'Can I print here?',
  ]);
  expect([conversation.exchanges.length, conversation.problem]).toEqual([1, null]);
});

test('a canceled request for another reply leaves the exchange unchanged', async () => {
  const { api, conversation } = await openAndAsk();
  api.predict = () => new Promise(() => {});
  void conversation.another();
  expect([conversation.busy, conversation.pending]).toEqual([true, null]);
  conversation.stop();
  expect([conversation.busy, conversation.draft, conversation.exchanges[0]?.turns.length]).toEqual([
    false,
    '',
    1,
  ]);
});

test('an edited question returns to the composer and is asked as a new one', async () => {
  const { api, conversation } = await openAndAsk();
  conversation.edit(conversation.exchanges[0]!);
  expect(conversation.draft).toBe('When do you open?');
  conversation.draft += ' On Sundays?';
  await conversation.ask();
  expect(conversation.exchanges.map(({ question }) => question)).toEqual([
    'When do you open?',
    'When do you open? On Sundays?',
  ]);
  expect(api.predicted.at(-1)).not.toHaveProperty('exclude');
});

test('retiring and restoring a reply is reported step by step', async () => {
  const { api, turn } = await openAndAsk();
  const retirement = turn.retirement!;
  await retirement.retire();
  expect(retirement.steps).toEqual(['reply retired']);
  api.reply = CANDIDATES[1]!;
  api.publish();
  await settle();
  expect(retirement.steps.slice(1)).toEqual([
    'no longer given since version 43',
    'asked again now: before “at nine”, now “at ten”',
  ]);

  await retirement.restore();
  api.reply = CANDIDATES[0]!;
  api.publish();
  await settle();
  expect(api.calls.filter((call) => /retire|restore/.test(call))).toEqual([
    'retire r0',
    'restore r0',
  ]);
  expect(retirement.steps.at(-1)).toBe('asked again now: before “at ten”, now “at nine”');
});

test('undo restores a retired reply, then takes back earlier feedback', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.retire();
  await conversation.act({ do: 'undo' });
  expect([turn.retirement?.isRetired, turn.reward]).toEqual([false, 0]);
  await conversation.act({ do: 'undo' });
  await conversation.act({ do: 'undo' });
  expect(api.calls.filter((call) => /^re(tire|store|tract)/.test(call))).toEqual([
    'retire r0',
    'restore r0',
    'retract f1',
  ]);
});

test('a failed retirement is not undone', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(0);
  api.broken = 'the log is full';
  await turn.retire();
  api.broken = null;
  await conversation.undo();
  expect(api.calls.at(-1)).toBe('retract f1');
});

test('a failed retirement leaves the reply active', async () => {
  const { api, conversation, turn } = await openAndAsk();
  api.broken = 'the log is full';
  await turn.retirement!.retire();
  expect([turn.retirement!.isRetired, turn.retirement!.steps, conversation.problem]).toEqual([
    false,
    [],
    'the log is full',
  ]);
});

test('an explanation is requested each time it is opened', async () => {
  const { api, turn } = await openAndAsk();
  await turn.explanation.toggle();
  expect([turn.explanation.open, turn.explanation.answer?.model_version]).toEqual([true, '42']);
  await turn.explanation.toggle();
  api.broken = 'the store does not answer';
  await turn.explanation.toggle();
  expect(api.calls.filter((call) => call === 'why p1').length).toBe(2);
  expect([turn.explanation.answer, turn.explanation.problem]).toEqual([
    null,
    'the store does not answer',
  ]);
});
