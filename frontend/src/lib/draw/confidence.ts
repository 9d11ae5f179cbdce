/* How sure a guess is, in words that are honest about little knowledge.

   guess + drawing + known drawings --opinionOf--> what the bot says

   The chances of a guess only compare the names that the model knows. They are high as well for a drawing of something
   else, which no known name fits. The distances to the known drawings tell that.
*/

import type { Guess } from '../schema';

const SURE = 0.9;
const LIKELY = 0.6;
const FEW = 3; // drawings of a name: with fewer, it says how few
const ENOUGH = 5; // drawings of a name: with fewer, it is never sure
const ENOUGH_IN_ALL = 10;
/* Distances of the 64 numbers, measured with benchmarks/novelty.py on scikit-learn's digits. */
const USUAL = 33; // between a drawing and the only other one of its name
const LEAST_USUAL = 16; // drawings of one name that are hardly different do not make every other one far
const USUAL_WEIGHT = 5; // drawings that USUAL counts for, beside those of this page
const FAR = 1.2; // times the usual distance: it looks like nothing known
const NEAR = 1.1; // times the usual distance: near enough to be sure

type Features = readonly number[];

/** What was learned of a name. drawings: the features of those that the service lists. */
export interface KnownName {
  label: string;
  count: number;
  drawings: readonly Features[];
}

/** The drawings that the page knows to be learned. */
export class KnownDrawings {
  /** The distance at which the nearest drawing of the same name usually is. */
  readonly usual: number;

  /** isComplete: whether the model has learned no other names. */
  constructor(
    private names: readonly KnownName[],
    readonly isComplete: boolean,
  ) {
    const within = names.flatMap(({ drawings }) => distancesWithin(drawings));
    const mean = (USUAL_WEIGHT * USUAL + sum(within)) / (USUAL_WEIGHT + within.length);
    this.usual = Math.max(LEAST_USUAL, mean);
  }

  /** How many drawings of a name were learned, at least. */
  countOf(label: string): number {
    return this.names.find((one) => one.label === label)?.count ?? 0;
  }

  get count(): number {
    return sum(this.names.map(({ count }) => count));
  }

  /** From the nearest drawing of a name, in usual distances; null where none of its drawings is kept. */
  distanceFrom(label: string, drawing: Features): number | null {
    const known = this.names.find((one) => one.label === label)?.drawings ?? [];
    return known.length === 0 ? null : nearest(drawing, known) / this.usual;
  }

  /** Whether it is much farther from every known drawing than these are from their own kind. */
  isFar(drawing: Features): boolean {
    const learned = this.names.filter(({ count }) => count > 0);
    const areKept = learned.length > 0 && learned.every(({ drawings }) => drawings.length > 0);
    if (!areKept || !this.isComplete) return false;
    const all = learned.flatMap(({ drawings }) => drawings);
    return nearest(drawing, all) > FAR * this.usual;
  }
}

export type Opinion =
  /** It has not learned any shape. */
  | { kind: 'none' }
  /** It looks like nothing that was learned. */
  | { kind: 'new'; label: string }
  /** It knows no other shape, so that it cannot guess anything else. */
  | { kind: 'only'; label: string }
  | { kind: 'sure' | 'likely'; label: string; chance: number }
  /** Its drawings are not known well enough to say how sure it is. */
  | { kind: 'best'; label: string }
  /** It has seen too few drawings of the shape to be sure, whatever the numbers say. */
  | { kind: 'few'; label: string; seen: number }
  | { kind: 'unsure'; label: string; other: string };

export function opinionOf(guess: Guess, drawing: Features, known: KnownDrawings): Opinion {
  const ranked = Object.entries(guess.probabilities).sort(([, a], [, b]) => b - a);
  const [first, second] = ranked;
  const label = guess.label ?? first?.[0];
  if (label === undefined) return { kind: 'none' };
  if (known.isFar(drawing)) return { kind: 'new', label };
  if (!first || !second) return { kind: 'only', label };
  const chance = guess.probabilities[label] ?? 0;
  if (guess.label === null || chance < LIKELY)
    return { kind: 'unsure', label, other: (label === second[0] ? first : second)[0] };
  return howSure(label, chance, drawing, known);
}

function howSure(label: string, chance: number, drawing: Features, known: KnownDrawings): Opinion {
  const seen = known.countOf(label);
  if (seen < FEW && known.isComplete) return { kind: 'few', label, seen };
  if (seen < ENOUGH || known.count < ENOUGH_IN_ALL) return { kind: 'best', label };
  const distance = known.distanceFrom(label, drawing);
  const isSure = chance >= SURE && distance !== null && distance <= NEAR;
  return { kind: isSure ? 'sure' : 'likely', label, chance };
}

/** From each drawing to the nearest other one; none for a single drawing. */
function distancesWithin(drawings: readonly Features[]): number[] {
  if (drawings.length < 2) return [];
  return drawings.map((one) =>
    nearest(
      one,
      drawings.filter((other) => other !== one),
    ),
  );
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);

const nearest = (drawing: Features, others: readonly Features[]) =>
  Math.sqrt(Math.min(...others.map((other) => squaredDistance(drawing, other))));

const squaredDistance = (a: Features, b: Features) => sum(a.map((value, place) => (value - (b[place] ?? 0)) ** 2));
