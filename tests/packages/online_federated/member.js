/* A device that learns rows of its own and takes part in a cohort, with the packages as they are published. */

import { Learner } from './learner/index.js';
import { CohortMember } from './package/index.js';

/** Join, and return what does the next round and says the state. */
export async function join({ address, create, rows }) {
  const learner = Learner.create(create);
  learner.learn(rows.map(([input, label]) => ({ input, label })));
  const member = await CohortMember.join(address);
  const values = learner.contributedValues(member.cohort);
  return async () => (await member.advance(values)).state;
}
