import { expect, test } from 'vitest';
import { describeRetirement } from '../../src/lib/chat/status';
import { CANDIDATES, FULL, openAndAsk, settle } from '../fake';

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
  expect([exchange.place, exchange.current.reply?.text, conversation.last?.id]).toEqual([2, 'at eleven', 'p3']);
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
  expect(conversation.last!.latest!.steps.at(-1)).toBe('asked again now: before “at nine”, now “at ten”');
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
  expect([aborted, conversation.pending, conversation.draft]).toEqual([true, null, 'Can I print here?']);
  expect([conversation.exchanges.length, conversation.problem]).toEqual([1, null]);
});

test('a canceled request for another reply leaves the exchange unchanged', async () => {
  const { api, conversation } = await openAndAsk();
  api.predict = () => new Promise(() => {});
  void conversation.another();
  expect([conversation.busy, conversation.pending]).toEqual([true, null]);
  conversation.stop();
  expect([conversation.busy, conversation.draft, conversation.exchanges[0]?.turns.length]).toEqual([false, '', 1]);
});

test('an edited question starts a branch, and both versions stay', async () => {
  const { api, conversation } = await openAndAsk();
  await conversation.ask('And on Sundays?');
  const [first, second] = conversation.exchanges;
  second!.startEditing();
  second!.edited += ' In winter?';
  await conversation.askEdited(second!);
  expect(api.predicted.at(-1)).toMatchObject({
    after: 'p1',
    instances: ['And on Sundays? In winter?'], // the service reads it after those of its branch
  });
  const questions = () => conversation.exchanges.map(({ question }) => question);
  expect(questions()).toEqual(['When do you open?', 'And on Sundays? In winter?']);
  expect([second!.edited, conversation.versionsOf(second!).length]).toEqual([null, 2]);

  await conversation.ask('Thanks');
  expect(api.predicted.at(-1)).toMatchObject({ after: 'p3' });
  conversation.showVersion(conversation.exchanges[1]!, -1);
  expect(questions()).toEqual(['When do you open?', 'And on Sundays?']);
  await conversation.ask('When then?');
  expect(api.predicted.at(-1)).toMatchObject({
    after: 'p2',
    instances: ['When then?'],
  });
  conversation.showVersion(second!, 1);
  expect(questions()).toEqual(['When do you open?', 'And on Sundays? In winter?', 'Thanks']);
  expect(conversation.exchanges[0]).toBe(first);
});

test('the first question can be edited, and follows nothing', async () => {
  const { api, conversation } = await openAndAsk();
  const [first] = conversation.exchanges;
  first!.startEditing();
  first!.edited = 'When do you close?';
  await conversation.askEdited(first!);
  expect(api.predicted.at(-1)).toMatchObject({ after: '', instances: ['When do you close?'] });
  expect(conversation.exchanges.map(({ question }) => question)).toEqual(['When do you close?']);
});

test('an edit that is cancelled, empty or unchanged asks nothing', async () => {
  const { api, conversation } = await openAndAsk();
  const [first] = conversation.exchanges;
  first!.startEditing();
  first!.edited = 'When do you close?';
  first!.cancelEditing();
  first!.startEditing();
  expect(first!.edited).toBe('When do you open?');
  await conversation.askEdited(first!);
  first!.startEditing();
  first!.edited = '  ';
  await conversation.askEdited(first!);
  expect(api.predicted).toHaveLength(1);
});

test('an edited question that gets no answer stays in its box, and the exchange is shown again', async () => {
  const { api, conversation } = await openAndAsk();
  const [first] = conversation.exchanges;
  first!.startEditing();
  first!.edited = 'When do you close?';
  const { predict } = api;
  api.predict = () => new Promise(() => {});
  void conversation.askEdited(first!);
  expect([conversation.pending, conversation.shown]).toEqual(['When do you close?', []]);
  conversation.stop();
  expect([conversation.shown, conversation.draft]).toEqual([[first], '']);
  api.predict = predict;
  api.broken = 'the disk is full';
  await conversation.askEdited(first!);
  expect([first!.edited, conversation.draft, conversation.exchanges]).toEqual(['When do you close?', '', [first]]);
});

test('retiring and restoring a reply is followed until the question gets another answer', async () => {
  const { api, turn } = await openAndAsk();
  const retirement = turn.retirement!;
  await retirement.retire();
  expect(describeRetirement(retirement)).toBe('No longer used');
  api.reply = CANDIDATES[1]!;
  api.publish();
  await settle();
  expect(retirement.sinceVersion).toBe('43');
  expect(turn.change).toEqual({ before: 'at nine', after: 'at ten', isSame: false });

  await retirement.restore();
  api.reply = CANDIDATES[0]!;
  api.publish();
  await settle();
  expect(api.calls.filter((call) => /retire|restore/.test(call))).toEqual(['retire r0', 'restore r0']);
  expect(describeRetirement(retirement)).toBe('Used again');
  expect(turn.change).toEqual({ before: 'at ten', after: 'at nine', isSame: false });
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
  expect([turn.retirement!.isRetired, turn.retirement!.wanted, conversation.problem]).toEqual([false, null, FULL]);
});

test('an explanation is requested each time it is opened', async () => {
  const { api, turn } = await openAndAsk();
  await turn.explanation.toggle();
  expect([turn.explanation.open, turn.explanation.answer?.model_version]).toEqual([true, '42']);
  await turn.explanation.toggle();
  api.broken = 'the store does not answer';
  await turn.explanation.toggle();
  expect(api.calls.filter((call) => call === 'why p1').length).toBe(2);
  expect([turn.explanation.answer, turn.explanation.problem]).toEqual([null, FULL]);
});
