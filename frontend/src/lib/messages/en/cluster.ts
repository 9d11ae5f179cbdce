/* The cluster page. */

import { plural } from '../plural';

export const cluster = {
  title: 'Cluster',
  lead: 'The replicas of this service, what each has learned, and whether all of them have the same model.',
  needs: 'The replicas and their state',
  single: 'A single service',
  singleNote:
    'This service keeps its data in SQLite on one machine, so there are no other replicas. To run several, let them share a Postgres database: the setting',
  summary: (present: number, different: number) => {
    if (present === 0) return 'No replica is present.';
    const who = `${present} ${plural(present, 'replica is', 'replicas are')} present`;
    if (different > 0)
      return `${who}. ${plural(different, 'One has', `${different} have`)} another model than the published one.`;
    return present === 1 ? `${who}.` : `${who}, and all have the published model.`;
  },
  absent: (count: number) => plural(count, 'One is absent.', `${count} are absent.`),
  answers: 'What answers',
  replicas: 'Replicas',
  models: 'Models on each replica',
  replica: 'Replica',
  condition: 'State',
  seen: 'Last seen',
  release: 'Release',
  disk: 'Free disk',
  clock: 'Clock',
  clockHint: 'Its clock minus that of the database. What is learned does not depend on it.',
  address: 'Address',
  model: 'Model',
  version: 'Version',
  log: 'Log',
  learned: 'Learned until',
  publishedBy: 'Published by',
  lag: 'Events behind',
  hash: 'Hash',
  same: 'as published',
  other: 'differs from the published one',
  unknown: 'not known',
  frozen: 'frozen',
  none: 'none yet',
  conditions: {
    current: 'Up to date',
    behind: 'Catching up',
    idle: 'Does not learn',
    absent: 'Absent',
    differs: 'Another model',
    diverged: 'Diverged',
  },
  hints: {
    current: 'It has learned the log and answers from the published model.',
    behind: 'It learns what it has missed.',
    idle: 'Its learner does not run. It answers from what others publish.',
    absent: 'It has not reported for five seconds: it does not run, or does not reach the database.',
    differs: 'Its version is not the one that was published under this number.',
    diverged:
      'It learned another state from the same log, as another processor or build does. It takes what others publish.',
  },
  roles: {
    learns: 'learns',
    'stands by': 'stands by',
    diverged: 'diverged',
    'does not learn': 'does not learn',
  },
  learner: 'Learner',
  doctor: 'What to do is said by',
};
