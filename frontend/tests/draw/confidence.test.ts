import { expect, test } from 'vitest';
import { KnownDrawings, opinionOf } from '../../src/lib/draw/confidence';

const guess = (label: string | null, probabilities: Record<string, number>) => ({
  label,
  probabilities,
});

/** A drawing at a distance from those of another place, in the units of the features. */
const at = (...place: number[]) => Array.from({ length: 64 }, (_, index) => place[index] ?? 0);
const STAR = at(0);
const HEART = at(0, 60);
const FAR_AWAY = at(0, 0, 60);

/** Drawings of each name that lie close together. */
const known = (counts: Record<string, number>, isComplete = true) =>
  new KnownDrawings(
    Object.entries(counts).map(([label, count]) => ({
      label,
      count,
      drawings: Array.from({ length: count }, (_, place) => (label === 'heart' ? at(place, 60) : at(place))),
    })),
    isComplete,
  );

const PLENTY = known({ star: 6, heart: 6 });
const SURE = guess('star', { star: 0.95, heart: 0.05 });

test.each([
  [guess(null, {}), { kind: 'none' }],
  [guess('star', { star: 1 }), { kind: 'only', label: 'star' }],
  [SURE, { kind: 'sure', label: 'star', chance: 0.95 }],
  [guess('star', { heart: 0.3, star: 0.7 }), { kind: 'likely', label: 'star', chance: 0.7 }],
  [guess('star', { heart: 0.4, star: 0.45, sun: 0.15 }), { kind: 'unsure', label: 'star', other: 'heart' }],
  [guess(null, { heart: 0.6, star: 0.4 }), { kind: 'unsure', label: 'heart', other: 'star' }],
])('the guess %j is put into honest words', (given, opinion) => {
  expect(opinionOf(given, STAR, PLENTY)).toEqual(opinion);
});

test('a guess from few drawings of the name, or in all, is never sure', () => {
  expect(opinionOf(SURE, STAR, known({ star: 1, heart: 20 }))).toEqual({
    kind: 'few',
    label: 'star',
    seen: 1,
  });
  expect(opinionOf(SURE, STAR, known({ star: 4, heart: 20 }))).toMatchObject({ kind: 'best' });
  expect(opinionOf(SURE, STAR, known({ star: 5, heart: 4 }))).toMatchObject({ kind: 'best' });
  expect(opinionOf(SURE, STAR, known({ star: 5, heart: 5 }))).toMatchObject({ kind: 'sure' });
});

test('a drawing that is far from everything known is new, whatever the chances say', () => {
  for (const drawings of [known({ star: 1, heart: 1 }), PLENTY])
    expect(opinionOf(SURE, FAR_AWAY, drawings)).toEqual({ kind: 'new', label: 'star' });
  const only = guess('star', { star: 1 });
  expect(opinionOf(only, FAR_AWAY, known({ star: 1 }))).toEqual({ kind: 'new', label: 'star' });
  expect(opinionOf(only, STAR, known({ star: 1 }))).toEqual({ kind: 'only', label: 'star' });
});

test('what is far is measured by how far drawings of one name are from each other', () => {
  const spread = [0, 1, 2, 3, 4, 5].map((place) => at(60 * place));
  const close = [0, 1, 2, 3, 4, 5].map((place) => at(place));
  const names = (drawings: number[][]) => new KnownDrawings([{ label: 'star', count: 6, drawings }], true);
  expect(names(spread).isFar(at(0, 45))).toBe(false);
  expect(names(close).isFar(at(0, 45))).toBe(true);
  expect(names(close).usual).toBeLessThan(names([close[0]!]).usual);
});

test('a drawing between the known ones is not sure to be the nearest', () => {
  const between = at(0, 0, 18);
  expect(PLENTY.isFar(between)).toBe(false);
  expect(opinionOf(SURE, between, PLENTY)).toEqual({ kind: 'likely', label: 'star', chance: 0.95 });
  expect(opinionOf(SURE, HEART, PLENTY)).toMatchObject({ kind: 'likely' });
});

test('where others have taught names, nothing is called new, and nothing sure that is not known here', () => {
  expect(opinionOf(SURE, FAR_AWAY, known({}, false))).toEqual({ kind: 'best', label: 'star' });
  expect(opinionOf(SURE, FAR_AWAY, known({ heart: 20 }, false))).toMatchObject({ kind: 'best' });
  expect(opinionOf(SURE, STAR, known({ star: 6, heart: 6 }, false))).toMatchObject({
    kind: 'sure',
  });
});

test('where drawings are not kept, their distance is not known', () => {
  const names = ['star', 'heart'].map((label) => ({ label, count: 9, drawings: [] }));
  const notKept = new KnownDrawings(names, true);
  expect(opinionOf(SURE, FAR_AWAY, notKept)).toMatchObject({ kind: 'likely' });
});
