import { expect, test } from 'vitest';

import { isOfMember, membersOf } from '../../src/lib/learning/members';

const METRICS = {
  events: 5,
  vote_served: 1,
  vote_percent: 90,
  vote_recent_percent: 95,
  near_served: 0,
  near_percent: 80,
  near_recent_percent: 70,
  near_vote_percent: 25,
  near_rests: 1,
};

test('members are read from the metrics, in their order', () => {
  expect(membersOf(METRICS)).toEqual([
    {
      name: 'vote',
      percent: 90,
      recentPercent: 95,
      votePercent: undefined,
      isServed: true,
      rests: false,
    },
    {
      name: 'near',
      percent: 80,
      recentPercent: 70,
      votePercent: 25,
      isServed: false,
      rests: true,
    },
  ]);
});

test('a model without members and a pair of champion and challenger have none', () => {
  expect(membersOf({ events: 5, temperature: 2 })).toEqual([]);
  expect(membersOf({ challenger_served: 1, champion_percent: 60 })).toEqual([]);
});

test('the metrics of members are told from the others by their endings', () => {
  const members = membersOf(METRICS);
  const others = Object.keys(METRICS).filter((name) => !isOfMember(name, members));
  expect(others).toEqual(['events']);
  expect(isOfMember('nearby_percent', members)).toBe(false);
});
