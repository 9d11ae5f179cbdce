/* The members of an ensemble, read from the metrics of a version: pure functions. */

export interface Member {
  name: string;
  /** Right answers in percent: of all that were scored, and of about the last hundred. */
  percent: number | undefined;
  recentPercent: number | undefined;
  votePercent: number | undefined;
  isServed: boolean;
  rests: boolean;
}

type Metrics = Record<string, number>;

const SERVED = '_served';
/** Endings of a member's metrics, besides the one above, that decides whether there is such a member. */
const OTHERS = ['_percent', '_recent_percent', '_vote_percent', '_loss', '_rests'];
const PAIR = ['champion', 'challenger']; // two models of their own, not members

export function membersOf(metrics: Metrics): Member[] {
  return Object.keys(metrics)
    .filter((key) => key.endsWith(SERVED))
    .map((key) => key.slice(0, -SERVED.length))
    .filter((name) => !PAIR.includes(name))
    .map((name) => ({
      name,
      percent: metrics[`${name}_percent`],
      recentPercent: metrics[`${name}_recent_percent`],
      votePercent: metrics[`${name}_vote_percent`],
      isServed: metrics[name + SERVED] === 1,
      rests: metrics[`${name}_rests`] === 1,
    }));
}

/** Whether a metric is one of a member, and is shown in the table of members. */
export function isOfMember(metric: string, members: Member[]): boolean {
  return members.some(({ name }) => [SERVED, ...OTHERS].some((ending) => metric === name + ending));
}
