import { expect, test } from 'vitest';
import { CANDIDATES, openAndAsk, openPage, VISITOR } from '../fake';

test('a wrong reply offers the next three candidates, without the one that was shown', async () => {
  const { turn } = await openAndAsk();
  expect(turn.offersChips).toBe(false);
  await turn.rate(0);
  expect(turn.offersChips).toBe(true);
  expect(turn.chips.map(({ text }) => text)).toEqual(['at ten', 'at eleven', 'at noon']);
});

test('choosing a chip sends its text as the correction and hides the chips', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.choose(1);
  expect(api.sentFeedback.at(-1)).toEqual({
    id: 'f2',
    prediction_id: 'p1',
    correction: 'at eleven',
    scope: 'reply',
  });
  expect(turn.correctionText).toBe('at eleven');
  expect(turn.offersChips).toBe(false);
});

test('a correction says whether it is for the question alone', async () => {
  const { api, turn } = await openAndAsk();
  turn.scope = 'question';
  await turn.teach('at dawn');
  expect(api.sentFeedback.at(-1)).toMatchObject({ correction: 'at dawn', scope: 'question' });
});

test('a chip that is not offered cannot be chosen', async () => {
  const { api, turn } = await openAndAsk();
  await turn.choose(0);
  expect(api.sentFeedback).toEqual([]);
});

test('an abstention asks a curator to teach at once, and has no thumbs', async () => {
  const { api, conversation } = await openPage();
  api.reply = null;
  await conversation.ask('Do you lend umbrellas?');
  const turn = conversation.last!;
  expect([turn.isGuess, turn.showsChips, turn.asksToTeach, turn.showsForm]).toEqual([true, true, true, true]);
  await turn.rate(1);
  expect(api.sentFeedback).toEqual([]);
});

test('an abstention asks a visitor nothing: a form is opened by those who know the answer', async () => {
  const { api, conversation } = await openPage(VISITOR);
  [api.reply, api.candidates] = [null, [{ ...CANDIDATES[0]!, score: 0.19 }]];
  await conversation.ask('Do you have llamas?');
  const turn = conversation.last!;
  expect([turn.isGuess, turn.showsCorrection, turn.offersForm]).toEqual([false, false, true]);
  turn.openTeaching();
  expect([turn.showsForm, turn.offersForm]).toEqual([true, false]);
});

test('likely replies are offered in place of an unknown one until they are dismissed', async () => {
  const { api, conversation } = await openPage(VISITOR);
  api.reply = null;
  api.candidates = CANDIDATES.map((one, place) => ({ ...one, score: 0.3 - 0.06 * place }));
  await conversation.ask('Do you have llamas?');
  const turn = conversation.last!;
  expect(turn.chips.map(({ text }) => text)).toEqual(['at nine', 'at ten']);
  expect([turn.isGuess, turn.showsForm, turn.offersForm]).toEqual([true, false, false]);
  turn.dismissChips();
  expect([turn.isGuess, turn.showsCorrection, turn.offersForm]).toEqual([false, false, true]);
  await turn.choose(0);
  expect(api.sentFeedback).toEqual([]);
});

test('a reply that was chosen is told from one that was written', async () => {
  const { turn } = await openAndAsk();
  await turn.teach('at dawn');
  expect(turn.choseChip).toBe(false);
  await turn.teach('at ten');
  expect(turn.choseChip).toBe(true);
});

test('a correction replaces a good rating and an earlier correction', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(1);
  await turn.teach('at one');
  await turn.teach('at two');
  expect(api.calls.slice(-3)).toEqual(['give 1', 'give at one', 'give at two']); // the service replaces them
  expect([turn.reward, turn.correctionText]).toEqual([null, 'at two']);
});

test('a rating replaces a correction', async () => {
  const { api, turn } = await openAndAsk();
  await turn.rate(0);
  await turn.teach('at one');
  await turn.rate(1);
  expect(api.calls.slice(-3)).toEqual(['give 0', 'give at one', 'give 1']);
  expect([turn.reward, turn.correctionText]).toEqual([1, null]);
});

test('a correction that could not be sent keeps its text and its box', async () => {
  const { api, turn } = await openAndAsk();
  turn.openTeaching();
  turn.teachDraft = 'at one';
  api.broken = 'the log is full';
  await turn.teach();
  expect(turn.teachDraft).toBe('at one');
  expect(turn.showsCorrection).toBe(true);

  api.broken = null;
  await turn.teach();
  expect(turn.teachDraft).toBe('');
  expect(turn.showsCorrection).toBe(false);
});

test('blank text sends nothing', async () => {
  const { api, turn } = await openAndAsk();
  await turn.teach('  \n ');
  expect(api.sentFeedback).toEqual([]);
});

test.each([
  ['off', false],
  ['review', true],
  ['on', true],
] as const)('an answer of this device is rated by those who may teach: %s', async (teaching, may) => {
  const { api, conversation } = await openPage({ mayRate: true, mayCurate: false, teaching });
  const predict = api.predict.bind(api);
  api.predict = async (request) => ({ ...(await predict(request)), isLocal: true });
  await conversation.ask('When do you open?');
  const turn = conversation.last!;
  await turn.rate(0);
  expect([turn.mayRate, turn.offersChips, api.sentFeedback.length]).toEqual([may, may, may ? 1 : 0]);
});
