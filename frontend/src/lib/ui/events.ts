/* The server-sent events. They are not in the OpenAPI document, so their types are written by hand. */

import type { Cause, Frozen, Learner } from '../schema';

/** Versions that had learned another log than the one that there is. */
export interface SetAside {
  at: string;
  reason: string;
  cause?: Cause | null;
  versions: string[];
  labels: string[];
  /** Whether a version has learned the present log. */
  learned_again: boolean;
}

interface Status {
  type: 'status';
  version: string;
  learned_until: number;
  learner: Learner;
  frozen?: Frozen | null;
  set_aside?: SetAside | null;
}

interface Published {
  type: 'published';
  version: string;
  learned_until: number;
  freshness_ms: number | null;
}

/** The log has grown: feedback has arrived, though it may not be learned. */
interface Received {
  type: 'received';
  head: number;
}

interface RolledBack {
  type: 'rolled_back';
  version: string;
  learned_until: number;
}

/** What became of a feedback of this caller. */
interface Settled {
  type: 'learned' | 'refused' | 'retracted' | 'rejected';
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

/** The learner set versions aside, or has learned the present log again. */
interface SetAsideNow {
  type: 'set_aside';
  set_aside: SetAside | null;
}

/** What waits in the inbox has changed. Only curators are sent it. */
interface InboxChanged {
  type: 'inbox';
}

export type ServerEvent =
  | Status
  | Published
  | Received
  | RolledBack
  | Settled
  | Adapted
  | Counted
  | Labelled
  | FrozenNow
  | SetAsideNow
  | InboxChanged;

/** Events with other names are ignored, so a newer server may add some. */
export const EVENT_TYPES = [
  'status',
  'published',
  'received',
  'rolled_back',
  'learned',
  'refused',
  'retracted',
  'rejected',
  'adapted',
  'counted',
  'labelled',
  'frozen',
  'set_aside',
  'inbox',
] as const;
