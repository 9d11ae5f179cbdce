/* The public names of the package. */

export { applyDelta } from './delta.js';
export { LearnerError } from './errors.js';
export { hashed, hashText, type FeatureEncoder } from './hashed.js';
export { Learner, type CohortTerms, type Example } from './learner.js';
export type { Answer, Candidate } from './judgement.js';
export type { CreateOptions } from './options.js';
