/* What became of feedback and of changes, step by step: pure functions from states to sentences. */

import { t } from '../messages';
import { milliseconds, truncate } from './wording';

export interface FeedbackState {
  failed: string | null;
  saved: boolean;
  waiting: boolean;
  held: boolean;
  refused: string | null;
  rejected: boolean;
  rejectionNote: string | null;
  learned: { version: string; freshness_ms: number | null } | null;
  undo: 'none' | 'requested' | 'saved' | 'learned';
  unlearnedVersion: string | null;
  recheckResult: RecheckResult | null;
}

/** The answers before and after; null for none. Without `before`, only the new answer is shown. */
export interface RecheckResult {
  before?: string | null | undefined;
  after: string | null;
}

const BEFORE_CHARS = 60; // the full text is shown above

const learnedIn = ({ version, freshness_ms }: NonNullable<FeedbackState['learned']>) =>
  freshness_ms === null ? t.ui.progress.learned(version) : t.ui.progress.learnedIn(version, milliseconds(freshness_ms));

export function describeRecheck({ before, after }: RecheckResult): string {
  const { progress } = t.ui;
  const now = after === null ? progress.noReply : `“${after}”`;
  if (before === undefined) return progress.now(after === null ? progress.noAnswer : now);
  if (before === after) return progress.still(now);
  return progress.changed(before === null ? progress.noReply : `“${truncate(before, BEFORE_CHARS)}”`, now);
}

/** What the service writes where the curator has written nothing. */
const OTHER_REPLY = 'A curator has written another reply.';
export const EXPIRED = 'nobody else agreed in time, so it was not learned';

export const wordNote = (note: string) => (note === OTHER_REPLY ? t.ui.progress.otherReply : note);

export function describeFeedback(state: FeedbackState): string[] {
  if (state.failed !== null) return [t.ui.progress.notSaved(state.failed)];
  if (state.undo !== 'none') return describeUndo(state);
  const { saved } = t.ui.progress;
  if (state.waiting) return [t.ui.progress.waiting];
  if (!state.saved) return [t.ui.progress.saving];
  if (state.held) return [t.ui.progress.held];
  if (state.refused !== null) return [saved, t.ui.progress.notLearned(state.refused)];
  if (!state.learned) return [saved];
  return [saved, learnedIn(state.learned), ...(state.recheckResult ? [describeRecheck(state.recheckResult)] : [])];
}

function describeUndo({ undo, unlearnedVersion, recheckResult }: FeedbackState): string[] {
  if (undo === 'requested') return [t.ui.progress.undoing];
  if (undo === 'saved') return [t.ui.progress.undone];
  return [
    t.ui.progress.undone,
    t.ui.progress.unlearned(unlearnedVersion ?? '?'),
    ...(recheckResult ? [describeRecheck(recheckResult)] : []),
  ];
}

/** The state of a change. done, learned: texts for a saved and for a learned change. */
interface ChangeState {
  done: string;
  learned: (version: string) => string;
  saved: boolean;
  failed: string | null;
  sinceVersion: string | null;
}

export function describeChange({ done, learned, saved, failed, sinceVersion }: ChangeState): string[] {
  if (failed !== null) return [t.ui.progress.notSaved(failed)];
  if (!saved) return [t.ui.progress.saving];
  return sinceVersion === null ? [done] : [done, learned(sinceVersion)];
}
