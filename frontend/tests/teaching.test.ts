import { expect, test } from 'vitest';
import { openAndAsk, openPage } from './fake';

test('a wrong reply offers the next three candidates, without the one that was shown', async () => {
  const { turn } = await openAndAsk();
  expect(turn.offersChips).toBe(false);
  await turn.rate(0);
  expect(turn.offersChips).toBe(true);
  expect(turn.chips.map(({ text }) => text)).toEqual(['at ten', 'at eleven', 'at noon']);
});

test('choosing a chip posts its text as the correction, and closes the offer', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.choose(1);
  expect(api.given.at(-1)).toEqual({ id: 'f2', prediction_id: 'p1', user: 'ada', correction: 'at eleven' });
  expect(turn.taught).toBe('at eleven');
  expect(turn.offersChips).toBe(false);
});

test('a chip that is not offered cannot be chosen', async () => {
  const { api, turn } = await openAndAsk();
  await turn.choose(0);
  expect(api.given).toEqual([]);
});

test('a model that abstained is offered its candidates and teaching at once, and no thumbs', async () => {
  const { api, conversation } = await openPage();
  api.reply = null;
  await conversation.ask('Do you lend umbrellas?');
  const turn = conversation.last!;
  expect([turn.offersChips, turn.offersTeaching]).toEqual([true, true]);
  await turn.rate(1);
  expect(api.given).toEqual([]);
});

test('teaching takes the place of praise and of an earlier correction', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  await turn.teach('at one');
  await turn.teach('at two');
  expect(api.calls.slice(-4)).toEqual(['retract f1', 'give at one', 'retract f2', 'give at two']);
});

test('praise takes back the thumb and the correction that contradict it', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.teach('at one');
  await turn.rate(1);
  expect(api.calls.slice(-3)).toEqual(['retract f1', 'retract f2', 'give 1']);
  expect(turn.taught).toBeNull();
});

test('a teaching that could not be sent keeps its words and its box', async () => {
  const { api, turn } = await openAndAsk();
  turn.askToTeach();
  turn.teachDraft = 'at one';
  api.broken = 'the log is full';
  await turn.teach();
  expect(turn.teachDraft).toBe('at one');
  expect(turn.offersTeaching).toBe(true);

  api.broken = null;
  await turn.teach();
  expect(turn.teachDraft).toBe('');
  expect(turn.offersTeaching).toBe(false);
});

test('blanks teach nothing', async () => {
  const { api, turn } = await openAndAsk();
  await turn.teach('  \n ');
  expect(api.given).toEqual([]);
});
