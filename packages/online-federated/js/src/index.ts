/* The public names of the package. */

export { AggregationClient, type Group, type PublicKeys, type SealedShares } from './client.js';
export type { Unmasking } from './client.js';
export { CohortMember } from './cohort.js';
export type { Cohort, CohortAddress, CohortState, Progress } from './cohort.js';
export { AggregationFailed, UnexpectedAnswer } from './errors.js';
export { Layout, type Segment } from './layout.js';
export { checkSupport, type Bytes, type RandomBytes } from './primitives.js';
