/* The options of a classifier in the service, as far as a learner follows them.

   What it does not follow is refused, because it would leave other sums than the service would.
*/

import { LearnerError } from './errors.js';
import { HASHED_EPOCH } from './hashed.js';
import type { Head } from './solution.js';
import { isObject, type Meta } from './sums_file.js';

export interface CreateOptions {
  /** vector: numbers, which are mapped to features here. features: int8 numbers as they are, such as those of a text. */
  input: 'vector' | 'features';
  /** Length of an input. */
  size: number;
  /** Numbers of a vector lie in [-scale, scale]. Required for vectors. */
  scale?: number;
  head?: Head;
  /** Strength of the covariance's shrinkage, in examples per feature. */
  shrinkage?: number;
  /** Whether frequent classes are preferred. */
  priors?: boolean;
  /** Abstain if the learned chance of being right is lower. */
  abstainBelow?: number;
  /** Most classes; examples of further ones are refused. */
  maxLabels?: number;
  /** The name of what made the features, as the service calls it. Sums are merged where it is the same. */
  reads?: string;
}

/** Valid options, complete. */
export interface Options {
  isVector: boolean;
  /** Length of a vector; 0 for features. */
  size: number;
  scale: number;
  head: Head;
  shrinkage: number;
  priors: boolean;
  abstainBelow: number;
  maxLabels: number;
}

const HEADS = ['slda', 'ridge'];
/** What leaves other sums, or other answers, with any value but this one. */
const UNUSED: Meta = { outside: '', window: 0, drift_window: 0, max_age: 0 };
/** What changes neither. */
const IGNORED = ['encoder', 'max_features', 'random_features', 'recent', 'seed', 'text_features'];
const FOLLOWED = ['input', 'size', 'scale', 'head', 'shrinkage', 'priors', 'abstain_below', 'max_labels'];

/** The options as the service names them. */
export function nameOptions(options: CreateOptions): Meta {
  const isVector = options.input === 'vector';
  const named: Meta = {
    input: isVector ? 'vector' : options.input === 'features' ? 'text' : options.input,
    size: isVector ? options.size : undefined,
    text_features: options.reads === HASHED_EPOCH ? 'hashed' : undefined,
    scale: options.scale,
    head: options.head,
    shrinkage: options.shrinkage,
    priors: options.priors,
    abstain_below: options.abstainBelow,
    max_labels: options.maxLabels,
  };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined));
}

/** Check options as the service names them, and complete them with its defaults. */
export function parseOptions(value: unknown): Options {
  if (!isObject(value)) throw new LearnerError('the file must have the options of its model');
  for (const [name, set] of Object.entries(value)) {
    if (name in UNUSED ? set !== UNUSED[name] : ![...IGNORED, ...FOLLOWED].includes(name))
      throw new LearnerError(`a learner outside the service does not follow option ${name} = ${JSON.stringify(set)}`);
  }
  const input = read(value, 'input', 'text', (set) => set === 'text' || set === 'vector');
  const isVector = input === 'vector';
  return {
    isVector,
    size: read(value, 'size', 0, (set) => Number.isInteger(set) && set >= Number(isVector)),
    scale: read(value, 'scale', 0, (set) => set >= 0 && set <= 1e300),
    head: read(value, 'head', 'slda', (set) => HEADS.includes(set)),
    shrinkage: read(value, 'shrinkage', 0.5, (set) => set >= 0 && set <= 1e9),
    priors: read(value, 'priors', true, () => true),
    abstainBelow: read(value, 'abstain_below', 0, (set) => set >= 0 && set <= 1),
    maxLabels: read(value, 'max_labels', 1000, (set) => Number.isInteger(set) && set >= 1),
  };
}

function read<T>(options: Meta, name: string, otherwise: T, isValid: (value: T) => boolean): T {
  const value = options[name] ?? otherwise;
  if (typeof value === typeof otherwise && isValid(value as T)) return value as T;
  const hint = name === 'head' ? `, only ${HEADS.join(' and ')}` : '';
  throw new LearnerError(`a learner has no option ${name} = ${JSON.stringify(value)}${hint}`);
}
