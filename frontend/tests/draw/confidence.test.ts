import { expect, test } from 'vitest';
import { opinionOf } from '../../src/lib/draw/confidence';

const unknown = () => null;
const guess = (label: string | null, probabilities: Record<string, number>) => ({
  label,
  probabilities,
});

test.each([
  [guess(null, {}), { kind: 'none' }],
  [guess('star', { star: 1 }), { kind: 'only', label: 'star' }],
  [guess('star', { star: 0.95, heart: 0.05 }), { kind: 'sure', label: 'star', chance: 0.95 }],
  [guess('star', { heart: 0.3, star: 0.7 }), { kind: 'likely', label: 'star', chance: 0.7 }],
  [
    guess('star', { heart: 0.4, star: 0.45, sun: 0.15 }),
    { kind: 'unsure', label: 'star', other: 'heart' },
  ],
  [guess(null, { heart: 0.6, star: 0.4 }), { kind: 'unsure', label: 'heart', other: 'star' }],
])('the guess %j is put into honest words', (given, opinion) => {
  expect(opinionOf(given, unknown)).toEqual(opinion);
});

test('a guess from few drawings is never sure', () => {
  const given = guess('star', { star: 0.99, heart: 0.01 });
  expect(opinionOf(given, () => 1)).toEqual({ kind: 'few', label: 'star', seen: 1 });
  expect(opinionOf(given, () => 3)).toMatchObject({ kind: 'sure' });
});
