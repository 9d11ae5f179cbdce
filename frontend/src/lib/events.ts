/* What the server tells without being asked. The stream is no part of the OpenAPI document, so this is written by hand. */

import type { Frozen, Learner } from './schema';

interface Status {
  type: 'status';
  version: string;
  learned_until: number;
  learner: Learner;
  frozen?: Frozen | null;
}

interface Published {
  type: 'published';
  version: string;
  learned_until: number;
  freshness_ms: number | null;
}

interface RolledBack {
  type: 'rolled_back';
  version: string;
  learned_until: number;
}

interface Settled {
  type: 'learned' | 'refused' | 'retracted';
  id: string;
}

/** Somebody tried to tune the text encoder; what came of it is in the model's status. */
interface Adapted {
  type: 'adapted';
}

/** A curve that took long to count is whole now. */
interface Counted {
  type: 'counted';
}

/** An operator changed what versions are called. */
interface Labelled {
  type: 'labelled';
}

/** An operator, or the guard, changed whether anything is learned. */
interface FrozenNow {
  type: 'frozen';
  frozen: Frozen | null;
}

export type ServerEvent = Status | Published | RolledBack | Settled | Adapted | Counted | Labelled | FrozenNow;

/** Events of any other name are never listened for, so a newer server may add some. */
export const EVENT_TYPES = ['status', 'published', 'rolled_back', 'learned', 'refused', 'retracted', 'adapted', 'counted', 'labelled', 'frozen'] as const;
