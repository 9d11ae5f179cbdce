/* The server-sent events. They are not in the OpenAPI document, so their types are written by hand. */

import type { Frozen, Learner } from '../schema';

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

/** A tuning of the text encoder ended; the model's status has the result. */
interface Adapted {
  type: 'adapted';
}

/** The learning curve is complete. */
interface Counted {
  type: 'counted';
}

/** An operator changed the version labels. */
interface Labelled {
  type: 'labelled';
}

/** An operator or the guard froze or resumed learning. */
interface FrozenNow {
  type: 'frozen';
  frozen: Frozen | null;
}

export type ServerEvent =
  Status | Published | RolledBack | Settled | Adapted | Counted | Labelled | FrozenNow;

/** Events with other names are ignored, so a newer server may add some. */
export const EVENT_TYPES = [
  'status',
  'published',
  'rolled_back',
  'learned',
  'refused',
  'retracted',
  'adapted',
  'counted',
  'labelled',
  'frozen',
] as const;
