import { expect, test } from 'vitest';
import { describeStatus } from '../../src/lib/chat/status';
import { FULL, openAndAsk, settle, VISITOR } from '../fake';

test('a thumb is saved, then learned, and the question is predicted again, unrecorded', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  expect(turn.latest!.steps).toEqual(['saved']);

  api.publish();
  await settle();
  expect(turn.latest!.steps).toEqual([
    'saved',
    'learned in version 43, 61 ms later',
    'asked again now: still “at nine”',
  ]);
  expect(api.predicted.at(-1)).toMatchObject({
    instances: ['When do you open?'],
    record: false,
    min_offset: 35,
  });
});

test('a thumb looks pressed before the server has answered', async () => {
  const { turn } = await openAndAsk();
  const sent = turn.rate(1);
  expect(turn.reward).toBe(1);
  expect(turn.latest!.steps).toEqual(['saving…']);
  await sent;
});

test('a version published before the receipt counts as well', async () => {
  const { api, turn } = await openAndAsk();
  const accept = api.giveFeedback.bind(api);
  api.giveFeedback = async (feedback) => {
    const receipt = await accept(feedback);
    api.publish();
    return receipt;
  };
  await turn.rate(1);
  await settle();
  expect(turn.latest!.learned?.version).toBe('43');
});

test('a pressed thumb that is pressed again is taken back, and un-learned', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  api.publish();
  await settle();

  await turn.rate(1);
  expect(turn.reward).toBeNull();
  expect(turn.latest!.steps).toEqual(['taken back']);
  api.publish();
  await settle();
  expect(turn.latest!.steps).toEqual(['taken back', 'un-learned in version 44', 'asked again now: still “at nine”']);
});

test('the other thumb replaces the one that was pressed', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  await turn.rate(0);
  expect(api.calls.slice(-2)).toEqual(['give 1', 'give 0']);
  expect(turn.reward).toBe(0);
});

test('thumbs pressed faster than the server answers still arrive in order', async () => {
  const { api, turn } = await openAndAsk();
  await Promise.all([turn.rate(1), turn.rate(0), turn.rate(1)]);
  expect(api.calls.filter((call) => /give|retract/.test(call))).toEqual(['give 1', 'give 0', 'give 1']);
  expect(turn.reward).toBe(1);
});

test('refused feedback gives its reason and releases the thumb', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  api.refuse('f1', 'too many in a minute');
  await settle();
  expect(turn.latest!.steps).toEqual(['saved', 'not learned: too many in a minute']);
  expect(turn.reward).toBeNull();
});

test('feedback that could not be sent gives an error and releases the thumb', async () => {
  const { api, conversation, turn } = await openAndAsk();
  api.broken = 'the log is full';
  await turn.rate(1);
  expect(turn.reward).toBeNull();
  expect(turn.latest!.steps).toEqual([`not saved: ${FULL}`]);
  expect(conversation.problem).toBe(FULL);
});

test('a thumb that could not be taken back stays pressed', async () => {
  const { api, conversation, turn } = await openAndAsk();
  await turn.rate(1);
  api.broken = 'the log is full';
  await turn.rate(1);
  expect(turn.reward).toBe(1);
  expect(conversation.problem).toBe(FULL);
});

test('feedback is learned even if the prediction that follows fails', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  api.predict = () => Promise.reject(new Error('too late'));
  api.publish();
  await settle();
  expect(turn.latest!.steps).toEqual(['saved', 'learned in version 43, 61 ms later']);
});

test('a thumb released after a failed request has nothing to retract', async () => {
  const { api, turn } = await openAndAsk();
  api.broken = 'the log is full';
  await Promise.all([turn.rate(1), turn.rate(1)]);
  expect(api.calls.filter((call) => call.startsWith('retract'))).toEqual([]);
});

test('a comparison that arrives after the retraction is not shown', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  const answer = await api.predict({
    instances: ['When do you open?'],
    record: false,
  });
  let answerNow = () => {};
  api.predict = () => new Promise((resolve) => (answerNow = () => resolve(answer)));
  api.publish();
  await settle();
  await turn.rate(1);
  answerNow();
  await settle();
  expect(turn.latest!.steps).toEqual(['taken back']);
  expect(turn.latest!.recheckResult).toBeNull();
});

test('a thumb that could not replace another leaves it pressed', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  api.broken = 'the log is full';
  await turn.rate(0);
  expect(turn.reward).toBe(1);
});

test('a proposal is held beside the rating, until a curator accepts it', async () => {
  const { api, turn, endPause } = await openAndAsk(VISITOR);
  await turn.rate(0);
  api.isReviewed = true;
  await turn.teach('at one');
  expect(turn.latest!.steps).toEqual(['Thank you. It is checked before it is learned.']);
  expect([turn.reward, turn.correctionText, turn.correction?.held]).toEqual([0, 'at one', true]);

  api.decide('f2', 'accepted');
  api.publish(); // wakes the page
  await settle();
  expect(turn.latest!.steps).toEqual([
    'saved',
    'learned in version 43, 61 ms later',
    'asked again now: still “at nine”',
  ]);
  expect([turn.reward, turn.correction?.held]).toEqual([null, false]);
  endPause();
});

test.each([
  [undefined, 'it was checked and not accepted'],
  ['We stopped that.', 'We stopped that.'],
  ['A curator has written another reply.', 'Another reply was written instead.'],
  ['nobody else agreed in time, so it was not learned', 'nobody else agreed in time'],
])('a rejection is shown at its event, with the reason %s', async (reason, shown) => {
  const { api, turn } = await openAndAsk(VISITOR);
  api.isReviewed = true;
  await turn.teach('at one');
  api.reject('f1', reason);
  await settle();
  expect(turn.latest!.steps).toEqual(['saved', `not learned: ${shown}`]);
});

test('a rejected suggestion stays readable with its reason, live and when it is resumed', async () => {
  const { api, turn } = await openAndAsk(VISITOR);
  api.isReviewed = true;
  await turn.teach('at one');
  api.reject('f1', 'We stopped that.');
  await settle();
  const shown = () => [turn.rejection?.content, describeStatus(turn.rejection!, false), turn.correctionText];
  const expected = [{ correction: 'at one' }, 'Checked, and not accepted: We stopped that.', null];
  expect(shown()).toEqual(expected);
  turn.feedbacks = [];
  turn.resume([{ id: 'f1', status: 'rejected', correction: 'at one', note: 'We stopped that.' }]);
  await settle();
  expect(shown()).toEqual(expected);
});

test('a rejection is found by asking, and the box for another proposal is back', async () => {
  const { api, turn, endPause } = await openAndAsk(VISITOR);
  await turn.rate(0);
  api.isReviewed = true;
  await turn.teach('at one');
  endPause();
  await settle();
  expect(turn.correction?.held).toBe(true);
  api.decide('f2', 'rejected');
  endPause();
  await settle();
  expect(turn.latest!.steps).toEqual(['saved', 'not learned: it was checked and not accepted']);
  expect([turn.reward, turn.correctionText, turn.showsCorrection]).toEqual([0, null, true]);
});

test('another proposal withdraws the one that is held, and the rating stays', async () => {
  const { api, turn } = await openAndAsk(VISITOR);
  await turn.rate(0);
  api.isReviewed = true;
  await turn.teach('at one');
  await turn.teach('at two');
  await settle();
  expect(api.calls.filter((call) => /give|retract/.test(call))).toEqual([
    'give 0',
    'give at one',
    'give at two',
    'retract f2',
  ]);
  expect([turn.reward, turn.correctionText]).toEqual([0, 'at two']);
});

test('a held proposal is taken back at once, because it was not learned', async () => {
  const { api, turn } = await openAndAsk(VISITOR);
  api.isReviewed = true;
  await turn.teach('at one');
  await turn.undo(turn.latest!);
  api.publish();
  await settle();
  expect(turn.latest!.steps).toEqual(['taken back']);
});

test('without the right to teach, only existing replies can be chosen', async () => {
  const { api, turn } = await openAndAsk({ mayRate: true, mayCurate: false, teaching: 'off' });
  turn.openTeaching();
  expect([turn.offersTeaching, turn.showsCorrection, turn.retirement]).toEqual([false, false, null]);
  await turn.rate(0);
  expect([turn.showsCorrection, turn.offersTeaching]).toEqual([true, false]);
  await turn.choose(0);
  expect(api.sentFeedback.at(-1)).toMatchObject({ correction: 'at ten' });
});

test('without the right to rate, nothing is sent', async () => {
  const { api, turn } = await openAndAsk({ mayRate: false, mayCurate: false, teaching: 'off' });
  await turn.rate(0);
  await turn.choose(0);
  expect([api.sentFeedback, turn.showsCorrection]).toEqual([[], false]);
});
