/* The replies that the model finds likely for several texts, by its own scores. */

import type { Candidate } from '../schema';

/** Each reply once, with its best score, the best first. lists: the candidates for each text. */
export function mergeByScore(lists: readonly (readonly Candidate[])[]): Candidate[] {
  const best = new Map<string, Candidate>();
  for (const one of lists.flat()) if (one.score > (best.get(one.id)?.score ?? -Infinity)) best.set(one.id, one);
  return [...best.values()].sort((a, b) => b.score - a.score);
}
