import { expect, test } from 'vitest';
import type { DrawApi } from '../src/lib/api';
import { Draw } from '../src/lib/draw.svelte';
import type { Guess, LabelShown, PredictRequest, PredictResponse } from '../src/lib/schema';
import { FakeApi, NO_CURVE, settle } from './fake';

/** A model that takes everything for what the test says. */
class FakeDrawApi extends FakeApi implements DrawApi {
  guess: Guess = { label: null, probabilities: {} };
  asked: PredictRequest<number[]>[] = [];
  told: LabelShown[] = [];

  override predict = async (request: PredictRequest<never>): Promise<PredictResponse<never>> => {
    this.calls.push('predict');
    if (this.broken !== null) throw new Error(this.broken);
    this.asked.push(request as PredictRequest<number[]>);
    return {
      predictions: [this.guess],
      prediction_ids: request.record ? [`p${this.asked.length}`] : [],
      model_version: String(this.version),
      learned_until: this.learned_until,
    } as unknown as PredictResponse<never>;
  };

  async labels() {
    return this.told;
  }

  async curve() {
    return NO_CURVE;
  }
}

async function openBoard(told: LabelShown[] = []) {
  const api = new FakeDrawApi();
  api.told = told;
  let ids = 0;
  const draw = new Draw({ api, user: 'ada', newId: () => `f${++ids}`, pause: () => settle() });
  draw.start();
  api.connect();
  await settle();
  return { api, draw };
}

function stroke(draw: Draw) {
  draw.begin({ x: 10, y: 10 });
  draw.extend({ x: 40, y: 80 });
}

async function openAndDraw() {
  const opened = await openBoard();
  stroke(opened.draw);
  await settle();
  return opened;
}

test('what is drawn is guessed at without a record', async () => {
  const { api, draw } = await openBoard();
  api.guess = { label: '7', probabilities: { '7': 0.9, '1': 0.1 } };
  stroke(draw);
  await settle();
  await settle();
  expect(draw.guess?.label).toBe('7');
  expect(api.asked.every(({ record }) => record === false)).toBe(true);
  expect(api.asked.at(-1)!.instances[0]).toHaveLength(64);
});

test('a name is recorded with what it was taken for, sent, learned and asked again', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  expect(api.given).toEqual([{ id: 'f1', prediction_id: expect.any(String), user: 'ada', label: '7' }]);
  expect(api.asked.filter(({ record }) => record)).toHaveLength(1);
  expect([draw.told?.label, draw.told?.guessed, draw.right]).toEqual(['7', null, 0]);

  api.guess = { label: '7', probabilities: { '7': 1 } };
  api.publish();
  await settle();
  await settle();
  expect(draw.told?.feedback.steps.at(-1)).toBe('asked again, I would say: “7”');
});

test('only what was guessed before it was named counts as right', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  api.guess = { label: '7', probabilities: { '7': 1 } };
  stroke(draw);
  await draw.name('7');
  expect([draw.right, draw.standing.length]).toEqual([1, 2]);
});

test('the first stroke after a name begins another drawing', async () => {
  const { draw } = await openAndDraw();
  stroke(draw);
  expect(draw.board.strokes).toHaveLength(2);
  await draw.name('4');
  stroke(draw);
  expect(draw.board.strokes).toHaveLength(1);
  expect(draw.told).toBeNull();
});

test('another name takes the place of the first, and the same again takes it back', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  await draw.name('1');
  await draw.name('1');
  expect(api.calls.filter((call) => /give|retract/.test(call))).toEqual(['give 7', 'retract f1', 'give 1', 'retract f2']);
  expect([draw.standing.length, draw.told]).toEqual([0, null]);
});

test('undo takes back the last name that stands, and the drawing may be named anew', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  await draw.undo();
  await draw.undo();
  expect(api.calls.filter((call) => call.startsWith('retract'))).toEqual(['retract f1']);
  expect(draw.features).not.toBeNull();
  await draw.name('1');
  expect(draw.standing.map(({ label }) => label)).toEqual(['1']);
});

test('a name that nobody has used yet is a class from then on', async () => {
  const { api, draw } = await openAndDraw();
  await draw.invent('  star ');
  expect(api.given.at(-1)).toMatchObject({ label: 'star' });
  expect(draw.classes.slice(-2)).toEqual(['9', 'star']);
  await draw.invent(' ');
  expect(api.given).toHaveLength(1);
});

test('classes that others invented are there, retired ones are not', async () => {
  const { draw } = await openBoard([
    { label: 'moon', active: true, offset: 1 },
    { label: '3', active: false, offset: 2 },
  ]);
  expect(draw.classes).toContain('moon');
  expect(draw.classes).not.toContain('3');
});

test('yes says what it was taken for', async () => {
  const { api, draw } = await openBoard();
  stroke(draw);
  await settle();
  await draw.agree();
  expect(api.given).toEqual([]);

  api.guess = { label: '7', probabilities: { '7': 1 } };
  draw.extend({ x: 50, y: 80 });
  await settle();
  await settle();
  await draw.agree();
  expect(api.given.at(-1)).toMatchObject({ label: '7' });
});

test('an empty board can be named nothing', async () => {
  const { api, draw } = await openBoard();
  await draw.name('7');
  expect(api.given).toEqual([]);
});

test('a name that could not be sent is told, and the drawing stays', async () => {
  const { api, draw } = await openAndDraw();
  api.broken = 'the store does not answer';
  await draw.name('7');
  expect([draw.problem, draw.told, draw.features === null]).toEqual(['the store does not answer', null, false]);
});

test('two names pressed at once are one', async () => {
  const { api, draw } = await openAndDraw();
  await Promise.all([draw.name('7'), draw.name('1')]);
  expect(api.given.map((each) => 'label' in each && each.label)).toEqual(['7']);
});
