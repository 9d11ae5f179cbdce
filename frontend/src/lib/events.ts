/* What the server tells without being asked. The stream is no part of the OpenAPI document, so this is written by hand. */

import type { Learner } from './schema';

interface Status {
  type: 'status';
  version: string;
  learned_until: number;
  learner: Learner;
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

export type ServerEvent = Status | Published | RolledBack | Settled;

/** Events of any other name are never listened for, so a newer server may add some. */
export const EVENT_TYPES = ['status', 'published', 'rolled_back', 'learned', 'refused', 'retracted'] as const;
