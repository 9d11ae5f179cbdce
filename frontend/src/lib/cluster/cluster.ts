/* What is said of the replicas of the service in words. */

import type { ClusterAnswer, ReplicaModel, ReplicaState } from '../schema';

/** What matters most of a replica or of a model on it, worst first. */
export const CONDITIONS = ['diverged', 'differs', 'absent', 'idle', 'behind', 'current'] as const;
export type Condition = (typeof CONDITIONS)[number];

const BEHIND = 1_000; // events: what arrives while a report is on its way is no lag

export function conditionOf({ is_present }: Pick<ReplicaState, 'is_present'>, model: ReplicaModel): Condition {
  if (!is_present) return 'absent';
  if (model.role === 'diverged') return 'diverged';
  if (model.agrees === false) return 'differs';
  if (model.role === 'does not learn') return 'idle';
  return model.lag > BEHIND ? 'behind' : 'current';
}

/** The worst condition of the models of a replica. */
export function worstOf(replica: ReplicaState): Condition {
  if (!replica.is_present) return 'absent';
  const found = replica.models.map((model) => conditionOf(replica, model));
  return CONDITIONS.find((condition) => found.includes(condition)) ?? 'current';
}

export interface Summary {
  present: number;
  absent: number;
  /** Replicas whose state is not the published one. */
  different: number;
}

export function summarize({ replicas }: ClusterAnswer): Summary {
  const conditions = replicas.map(worstOf);
  const countOf = (...wanted: Condition[]) => conditions.filter((each) => wanted.includes(each)).length;
  return {
    present: replicas.length - countOf('absent'),
    absent: countOf('absent'),
    different: countOf('diverged', 'differs'),
  };
}

/** When a replica was last seen, as an instant of this browser's clock. */
export const seenAt = ({ seen_s }: Pick<ReplicaState, 'seen_s'>, now = new Date()) =>
  new Date(now.getTime() - seen_s * 1000).toISOString();
