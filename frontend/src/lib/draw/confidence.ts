/* How sure a guess is, in words that are honest about few examples. */

import type { Guess } from '../schema';

const SURE = 0.9;
const LIKELY = 0.6;
const FEW = 3; // drawings

export type Opinion =
  /** It has not learned any shape. */
  | { kind: 'none' }
  /** It knows no other shape, so that it cannot guess anything else. */
  | { kind: 'only'; label: string }
  | { kind: 'sure' | 'likely'; label: string; chance: number }
  /** It has seen too few drawings of the shape to be sure, whatever the numbers say. */
  | { kind: 'few'; label: string; seen: number }
  | { kind: 'unsure'; label: string; other: string };

/** seenOf: how many drawings of a class it has learned; null if that is not known. */
export function opinionOf(guess: Guess, seenOf: (label: string) => number | null): Opinion {
  const ranked = Object.entries(guess.probabilities).sort(([, a], [, b]) => b - a);
  const [first, second] = ranked;
  if (!first) return guess.label === null ? { kind: 'none' } : { kind: 'only', label: guess.label };
  const label = guess.label ?? first[0];
  if (!second) return { kind: 'only', label };
  const chance = guess.probabilities[label] ?? 0;
  if (guess.label === null || chance < LIKELY)
    return { kind: 'unsure', label, other: (label === second[0] ? first : second)[0] };
  const seen = seenOf(label);
  if (seen !== null && seen < FEW) return { kind: 'few', label, seen };
  return { kind: chance < SURE ? 'likely' : 'sure', label, chance };
}
