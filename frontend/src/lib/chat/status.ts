/* What became of the feedback about a reply, in a few words: pure functions from states to sentences. */

import { t } from '../messages';
import type { FeedbackState } from '../ui/progress_wording';
import { milliseconds } from '../ui/wording';
import type { Retirement } from './retirement.svelte';

/** hasDetails: whether versions and times are named, for operators. */
export function describeStatus(state: FeedbackState, hasDetails: boolean): string {
  const { status } = t.chat;
  if (state.failed !== null) return status.notSaved(state.failed);
  if (state.undo !== 'none') return describeUndo(state, hasDetails);
  if (state.waiting) return t.ui.progress.waiting;
  if (!state.saved) return status.saving;
  if (state.held) return status.held;
  if (state.rejected) return state.rejectionNote === null ? status.rejected : status.rejectedWhy(state.rejectionNote);
  if (state.refused !== null) return hasDetails ? `${status.notLearned}: ${state.refused}` : status.notLearned;
  if (!state.learned) return status.saved;
  const { version, freshness_ms } = state.learned;
  return hasDetails && freshness_ms !== null ? status.learnedIn(version, milliseconds(freshness_ms)) : status.learned;
}

function describeUndo({ undo, unlearnedVersion }: FeedbackState, hasDetails: boolean): string {
  const { status } = t.chat;
  if (undo === 'requested') return status.undoing;
  if (undo === 'saved') return status.undone;
  return hasDetails ? status.unlearnedIn(unlearnedVersion ?? '?') : status.unlearned;
}

/** "" where the reply was neither switched off nor on. */
export function describeRetirement({ wanted, saved }: Pick<Retirement, 'wanted' | 'saved'>): string {
  const { status } = t.chat;
  if (wanted === null) return '';
  if (wanted === 'retire') return saved ? status.retired : status.retiring;
  return saved ? status.restored : status.restoring;
}
