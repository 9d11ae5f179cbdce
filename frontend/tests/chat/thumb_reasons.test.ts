import { expect, test } from 'vitest';
import { openAndAsk } from '../fake';

test('a rating with a reason replaces the one without', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.giveReason('rude');
  expect(api.calls.slice(-2)).toEqual(['give 0', 'give 0']);
  expect(api.sentFeedback.at(-1)).toEqual({
    id: 'f2',
    prediction_id: 'p1',
    reward: 0,
    reason: 'rude',
  });
  expect([turn.reward, turn.reason]).toEqual([0, 'rude']);
});

test('a reason chosen again is removed, and the rating stays', async () => {
  const { turn } = await openAndAsk();
  await turn.rate(0);
  await turn.giveReason('rude');
  await turn.giveReason('rude');
  expect([turn.reward, turn.reason]).toEqual([0, null]);
});

test('a switched rating keeps neither its reason nor its comment', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.giveReason('out of date');
  await turn.giveComment('that was last year');
  await turn.rate(1);
  expect(api.sentFeedback.at(-1)).toEqual({
    id: 'f4',
    prediction_id: 'p1',
    reward: 1,
  });
  await turn.rate(0);
  expect(api.sentFeedback.at(-1)).toEqual({
    id: 'f5',
    prediction_id: 'p1',
    reward: 0,
  });
  expect([turn.reason, turn.comment]).toEqual([null, null]);
});

test('a rating can have a reason and a comment', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  turn.commentDraft = ' that was last year ';
  await turn.giveComment();
  await turn.giveReason('out of date');
  expect(api.sentFeedback.at(-1)).toMatchObject({
    reward: 0,
    reason: 'out of date',
    comment: 'that was last year',
  });
  expect(turn.commentDraft).toBe('');
  await turn.giveComment('');
  expect(api.sentFeedback.at(-1)).toEqual({
    id: 'f4',
    prediction_id: 'p1',
    reward: 0,
    reason: 'out of date',
  });
});

test('a good rating and an unrated reply have no reason', async () => {
  const { api, turn } = await openAndAsk();
  await turn.giveComment('hm');
  await turn.giveReason('rude');
  await turn.rate(1);
  await turn.giveReason('rude');
  expect(api.sentFeedback.length).toBe(1);
});

test('a comment that could not be sent keeps its text', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  api.broken = 'the log is full';
  turn.commentDraft = 'short and clear';
  await turn.giveComment();
  expect([turn.commentDraft, turn.reward, turn.comment]).toEqual(['short and clear', 1, null]);
});
