import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import type { DrawApi } from '../../src/lib/api/draw';
import { DrawSession } from '../../src/lib/draw/draw_session.svelte';
import { Sketches } from '../../src/lib/draw/sketches';
import type { Guess, ClassInfo, PredictRequest, PredictResponse, TaughtClass } from '../../src/lib/schema';
import { ALL_RIGHTS, FakeApi, NO_CURVE, settle } from '../fake';

/** A model whose guess is set by the test. */
class FakeDrawApi extends FakeApi implements DrawApi {
  guess: Guess = { label: null, probabilities: {} };
  requests: PredictRequest<number[]>[] = [];
  knownClasses: ClassInfo[] = [];
  taught: TaughtClass[] = [];

  override predict = async (request: PredictRequest<never>): Promise<PredictResponse<never>> => {
    this.calls.push('predict');
    if (this.broken !== null) throw new Error(this.broken);
    this.requests.push(request);
    return {
      predictions: [this.guess],
      prediction_ids: request.record ? [`p${this.requests.length}`] : [],
      model_version: String(this.version),
      learned_until: this.learned_until,
    } as unknown as PredictResponse<never>;
  };

  async classes() {
    return this.knownClasses;
  }

  async curve() {
    return NO_CURVE;
  }

  async examples(of: string) {
    this.calls.push(`examples of ${of}`);
    return { classes: this.taught, rejected: [] };
  }

  async forgetClass(label: string) {
    this.calls.push(`forget ${label}`);
    return 2;
  }

  async teachAgain({ id }: { id: string }, label: string) {
    this.calls.push(`teach ${label} of ${id} again`);
  }
}

async function openBoard(
  knownClasses: ClassInfo[] = [],
  rights = ALL_RIGHTS,
  guess: Guess = { label: null, probabilities: {} },
) {
  const api = new FakeDrawApi();
  [api.knownClasses, api.guess] = [knownClasses, guess];
  let ids = 0;
  const draw = new DrawSession({
    api,
    newId: () => `f${++ids}`,
    pause: () => settle(),
    rights,
    sketches: new Sketches(null),
    storage: null,
  });
  draw.start();
  api.connect();
  await settle();
  return { api, draw };
}

function stroke(draw: DrawSession) {
  draw.begin({ x: 10, y: 10 });
  draw.extend({ x: 40, y: 80 });
}

async function openAndDraw() {
  const opened = await openBoard();
  stroke(opened.draw);
  await settle();
  return opened;
}

test('a drawing is guessed by unrecorded predictions', async () => {
  const { api, draw } = await openBoard();
  api.guess = { label: '7', probabilities: { '7': 0.9, '1': 0.1 } };
  stroke(draw);
  await settle();
  await settle();
  expect(draw.guess?.label).toBe('7');
  expect(api.requests.every(({ record }) => record === false)).toBe(true);
  expect(api.requests.at(-1)!.instances[0]).toHaveLength(64);
});

test('a name is recorded with the guess, sent and learned, and the drawing is predicted again', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  expect(api.sentFeedback).toEqual([{ id: 'f1', prediction_id: expect.any(String), label: '7' }]);
  expect(api.requests.filter(({ record }) => record)).toHaveLength(1);
  expect([draw.current?.label, draw.current?.guessBefore, draw.correctCount]).toEqual(['7', null, 0]);

  api.guess = { label: '7', probabilities: { '7': 1 } };
  api.publish();
  await settle();
  await settle();
  expect(draw.current?.feedback.steps.at(-1)).toBe('asked again now: “7”');
});

test('only a guess made before the name counts as right', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  api.guess = { label: '7', probabilities: { '7': 1 } };
  stroke(draw);
  await draw.name('7');
  expect([draw.correctCount, draw.activeDrawings.length]).toEqual([1, 2]);
});

test('the first stroke after a name begins another drawing', async () => {
  const { draw } = await openAndDraw();
  stroke(draw);
  expect(draw.board.strokes).toHaveLength(2);
  await draw.name('4');
  stroke(draw);
  expect(draw.board.strokes).toHaveLength(1);
  expect(draw.current).toBeNull();
});

test('another name replaces the first, and the same name again takes it back', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  await draw.name('1');
  await draw.name('1');
  expect(api.calls.filter((call) => /give|retract/.test(call))).toEqual([
    'give 7',
    'retract f1',
    'give 1',
    'retract f2',
  ]);
  expect([draw.activeDrawings.length, draw.current]).toEqual([0, null]);
});

test('undo takes back the last active name, and the drawing can be named again', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('7');
  await draw.undo();
  await draw.undo();
  expect(api.calls.filter((call) => call.startsWith('retract'))).toEqual(['retract f1']);
  expect(draw.features).not.toBeNull();
  await draw.name('1');
  expect(draw.activeDrawings.map(({ label }) => label)).toEqual(['1']);
});

test('a new name adds a class', async () => {
  const { api, draw } = await openAndDraw();
  await draw.nameNewClass('  star ');
  expect(api.sentFeedback.at(-1)).toMatchObject({ label: 'star' });
  expect(draw.classes).toEqual(['star']);
  await draw.nameNewClass(' ');
  expect(api.sentFeedback).toHaveLength(1);
});

test('classes added by others are listed, retired ones are not', async () => {
  const { draw } = await openBoard(
    [
      { label: 'moon', active: true, offset: 1, refusal: null },
      { label: '3', active: false, offset: 2, refusal: null },
    ],
    ALL_RIGHTS,
    { label: 'moon', probabilities: { moon: 0.8, '3': 0.2 } },
  );
  expect(draw.classes).toEqual(['moon']);
});

test('confirming sends the guess as the name', async () => {
  const { api, draw } = await openBoard();
  stroke(draw);
  await settle();
  await draw.confirmGuess();
  expect(api.sentFeedback).toEqual([]);

  api.guess = { label: '7', probabilities: { '7': 1 } };
  draw.extend({ x: 50, y: 80 });
  await settle();
  await settle();
  await draw.confirmGuess();
  expect(api.sentFeedback.at(-1)).toMatchObject({ label: '7' });
});

test('an empty board cannot be named', async () => {
  const { api, draw } = await openBoard();
  await draw.name('7');
  expect(api.sentFeedback).toEqual([]);
});

test('a name that could not be sent gives an error and keeps the drawing', async () => {
  const { api, draw } = await openAndDraw();
  api.broken = 'the store does not answer';
  await draw.name('7');
  expect([draw.problem, draw.current, draw.features === null]).toEqual([
    'Something went wrong on the server. Try again.',
    null,
    false,
  ]);
});

test('of two names given at once only the first is sent', async () => {
  const { api, draw } = await openAndDraw();
  await Promise.all([draw.name('7'), draw.name('1')]);
  expect(api.sentFeedback.map((each) => 'label' in each && each.label)).toEqual(['7']);
});

test('names of which nothing is known any more are offered as former names only', async () => {
  const { draw } = await openBoard([{ label: 'moon', active: true, offset: 1, refusal: null }]);
  expect([draw.classes, draw.formerNames]).toEqual([[], ['moon']]);
});

test('a known name is found in whatever case it was typed', async () => {
  const { api, draw } = await openAndDraw();
  await draw.nameNewClass('star');
  draw.clear();
  stroke(draw);
  await draw.nameNewClass('Star');
  expect(api.sentFeedback.map((each) => 'label' in each && each.label)).toEqual(['star', 'star']);
});

test('right guesses in a row are counted until one is wrong', async () => {
  const { api, draw } = await openAndDraw();
  api.guess = { label: '7', probabilities: { '7': 1 } };
  const streaks: number[] = [];
  for (const label of ['7', '7', '1', '7']) {
    await draw.name(label);
    streaks.push(draw.streak);
    stroke(draw);
  }
  expect(streaks).toEqual([1, 2, 0, 1]);
});

test('a guess is celebrated only while its drawing is on the board', async () => {
  const { api, draw } = await openAndDraw();
  api.guess = { label: '7', probabilities: { '7': 1 } };
  await draw.name('7');
  expect(draw.isGuessed).toBe(true);
  stroke(draw);
  expect(draw.isGuessed).toBe(false);
});

test('after too many requests the guesses wait, and nobody is told', async () => {
  const { api, draw } = await openBoard();
  const answer = api.predict;
  let asked = 0;
  api.predict = () => {
    asked += 1;
    return Promise.reject(new ApiError('too many', 429, 30));
  };
  stroke(draw);
  await settle();
  expect([draw.problem, asked]).toEqual([null, 1]);
  api.predict = answer;
  api.guess = { label: '7', probabilities: { '7': 1 } };
  await settle();
  await settle();
  expect(draw.guess?.label).toBe('7');
});

const STAR = {
  id: 'f1',
  prediction_id: 'p1',
  input: null,
  status: 'learned' as const,
  offset: 1,
  given_at: '2026-11-21T09:00:00Z',
};

test('a drawing of this visit that is forgotten no longer counts', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('star');
  expect(await draw.forget(STAR)).toBe(true);
  expect(api.calls.filter((call) => call.startsWith('retract'))).toEqual(['retract f1']);
  expect([draw.activeDrawings.length, draw.current]).toEqual([0, null]);
});

test('the drawings of a class that is forgotten no longer count', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('star');
  expect(await draw.forgetClass('star')).toBe(2);
  expect(api.calls).toContain('forget star');
  expect([draw.activeDrawings.length, draw.current, draw.classes]).toEqual([0, null, []]);
});

test('a name is followed by a look at what was taught', async () => {
  const { api, draw } = await openAndDraw();
  const before = api.calls.filter((call) => call.startsWith('examples')).length;
  await draw.name('star');
  await settle();
  expect(api.calls.filter((call) => call.startsWith('examples')).length).toBeGreaterThan(before);
});

test('no guess is sure from few drawings, or where others may have taught the names', async () => {
  const guess = { label: 'star', probabilities: { star: 0.99, heart: 0.01 } };
  const { api, draw } = await openBoard([], ALL_RIGHTS, guess);
  const taught = (label: string): TaughtClass => ({
    label,
    active: true,
    count: 2,
    held: 0,
    examples: [STAR],
  });
  stroke(draw);
  await settle();
  expect(draw.opinion).toEqual({ kind: 'best', label: 'star' });
  api.taught = [taught('star'), taught('heart')];
  await draw.gallery.load();
  expect(draw.opinion).toEqual({ kind: 'few', label: 'star', seen: 2 });
});

test('a drawing far from all that were taught is new, also where one name is known', async () => {
  const { api, draw } = await openBoard([], ALL_RIGHTS, {
    label: 'star',
    probabilities: { star: 1 },
  });
  const example = { ...STAR, input: new Array<number>(64).fill(0), status: 'learned' as const };
  api.taught = [{ label: 'star', active: true, count: 1, held: 0, examples: [example] }];
  await draw.gallery.load();
  stroke(draw);
  await settle();
  expect(draw.opinion).toEqual({ kind: 'new', label: 'star' });
  api.taught = [{ ...api.taught[0]!, examples: [{ ...example, input: draw.features }] }];
  await draw.gallery.load();
  expect(draw.opinion).toEqual({ kind: 'only', label: 'star' });
  draw.stop();
});

test('the first drawing of a new name does not count as guessed wrong', async () => {
  const { api, draw } = await openAndDraw();
  await draw.name('star');
  api.guess = { label: 'star', probabilities: { star: 0.8, heart: 0.2 } };
  stroke(draw);
  await draw.name('sun');
  expect([draw.correctCount, draw.judgedDrawings.length]).toEqual([0, 0]);
  stroke(draw);
  await draw.name('heart'); // which it knew
  stroke(draw);
  await draw.name('star');
  expect([draw.correctCount, draw.judgedDrawings.length]).toEqual([1, 2]);
});

test('a drawing whose rejection was undone waits again, and is followed until it is approved', async () => {
  const { api, draw } = await openAndDraw();
  api.isReviewed = true;
  await draw.name('star');
  await settle();
  const { feedback } = draw.current!;
  api.reject('f1', 'Too small.');
  await settle();
  await settle();
  expect([feedback.rejected, feedback.held]).toEqual([true, false]);
  draw.resumeUndone(); // it is not listed as held
  expect(feedback.rejected).toBe(true);
  const held = { ...STAR, id: 'f1', status: 'held' as const };
  api.taught = [{ label: 'star', active: true, count: 0, held: 1, examples: [held] }];
  api.progress.get('f1')!.status = 'held';
  await draw.gallery.load();
  draw.resumeUndone();
  expect([feedback.rejected, feedback.refused, feedback.held]).toEqual([false, null, true]);
  draw.stop();
});

test('a drawing that waits to be checked is no guess, and its status ends with the next drawing', async () => {
  const { api, draw } = await openAndDraw();
  api.isReviewed = true;
  await draw.name('star');
  await settle();
  expect([draw.activeDrawings.length, draw.judgedDrawings.length]).toEqual([1, 0]);
  expect(draw.lastNamed?.label).toBe('star');
  stroke(draw);
  expect([draw.current, draw.lastNamed]).toEqual([null, null]);
});

test('a drawing that a curator rejected does not count as guessed', async () => {
  const { api, draw } = await openBoard([], ALL_RIGHTS, { label: 'star', probabilities: {} });
  api.isReviewed = true;
  stroke(draw);
  await draw.name('star');
  await settle();
  expect(draw.isGuessed).toBe(true);
  api.reject('f1', 'Be kind.');
  await settle();
  await settle();
  expect([draw.isGuessed, draw.current?.feedback.refused]).toEqual([false, 'Be kind.']);
});

test('a new name that was refused is not offered any more, unless another drawing of it waits', async () => {
  const { api, draw } = await openBoard();
  api.isReviewed = true;
  for (const label of ['moon', 'sun', 'moon']) {
    stroke(draw);
    await draw.name(label);
    await settle();
  }
  draw.clear();
  const refuse = async (id: string) => {
    api.reject(id, 'Too small.');
    await settle();
    await settle();
  };
  await refuse('f1');
  expect([draw.isFree, draw.classes]).toEqual([true, ['moon', 'sun']]);
  await refuse('f3');
  expect([draw.classes, draw.formerNames]).toEqual([['sun'], []]);

  stroke(draw);
  await draw.name('moon'); // it may be proposed once more
  expect([draw.isFree, draw.classes]).toEqual([false, ['moon', 'sun']]);
});

test('a name that others taught stays when an own drawing of it is refused', async () => {
  const { api, draw } = await openBoard([], ALL_RIGHTS, {
    label: null,
    probabilities: { star: 1 },
  });
  api.isReviewed = true;
  stroke(draw);
  await draw.name('star');
  await settle();
  api.reject('f1', 'That is a moon.');
  await settle();
  await settle();
  expect(draw.classes).toEqual(['star']);
});
