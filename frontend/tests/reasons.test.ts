import { expect, test } from 'vitest';
import { openAndAsk } from './fake';

test('a reason takes the place of the thumb without one', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.giveReason('rude');
  expect(api.calls.slice(-2)).toEqual(['retract f1', 'give 0']);
  expect(api.given.at(-1)).toEqual({ id: 'f2', prediction_id: 'p1', user: 'ada', reward: 0, reason: 'rude' });
  expect([turn.reward, turn.reason]).toEqual([0, 'rude']);
});

test('a reason that is pressed again is let go, and the thumb stays', async () => {
  const { turn } = await openAndAsk();
  await turn.rate(0);
  await turn.giveReason('rude');
  await turn.giveReason('rude');
  expect([turn.reward, turn.reason]).toEqual([0, null]);
});

test('a switched thumb does not keep its old reason nor its comment', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.giveReason('out of date');
  await turn.giveComment('that was last year');
  await turn.rate(1);
  expect(api.given.at(-1)).toEqual({ id: 'f4', prediction_id: 'p1', user: 'ada', reward: 1 });
  await turn.rate(0);
  expect(api.given.at(-1)).toEqual({ id: 'f5', prediction_id: 'p1', user: 'ada', reward: 0 });
  expect([turn.reason, turn.comment]).toEqual([null, null]);
});

test('a comment and a reason stand beside each other', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  turn.commentDraft = ' that was last year ';
  await turn.giveComment();
  await turn.giveReason('out of date');
  expect(api.given.at(-1)).toMatchObject({ reward: 0, reason: 'out of date', comment: 'that was last year' });
  expect(turn.commentDraft).toBe('');
  await turn.giveComment('');
  expect(api.given.at(-1)).toEqual({ id: 'f4', prediction_id: 'p1', user: 'ada', reward: 0, reason: 'out of date' });
});

test('praise has no reason, and without a thumb there is nothing to explain', async () => {
  const { api, turn } = await openAndAsk();
  await turn.giveComment('hm');
  await turn.giveReason('wrong');
  await turn.rate(1);
  await turn.giveReason('wrong');
  expect(api.given.length).toBe(1);
});

test('a comment that could not be sent keeps its words', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  api.broken = 'the log is full';
  turn.commentDraft = 'short and clear';
  await turn.giveComment();
  expect([turn.commentDraft, turn.reward, turn.comment]).toEqual(['short and clear', 1, null]);
});
