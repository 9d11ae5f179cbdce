/* Which of the newest questions are answered otherwise by one version than by an earlier one. */

import type { LearningApi } from '../api/learning';
import type { VersionChanges } from '../schema';
import { detailOf } from '../ui/problems';

export class Comparison {
  found = $state.raw<VersionChanges | null>(null);
  problem = $state<string | null>(null);
  busy = $state(false);
  /** What was asked for last: the later version, and the earlier one or null. */
  version = $state<string | null>(null);
  since = $state<string | null>(null);
  /** Whether the earlier version was to be the one of an hour before. */
  wantsHourBefore = $state(false);

  private turn = 0;

  constructor(
    private api: Pick<LearningApi, 'changes'>,
    /** Whether the caller may see the questions of others. */
    readonly isAllowed: boolean,
  ) {}

  async compare(version: string, since: string | null) {
    const turn = ++this.turn;
    this.wantsHourBefore = since === null;
    [this.version, this.since, this.busy, this.problem] = [version, since, true, null];
    try {
      const found = await this.api.changes(version, since);
      if (turn !== this.turn) return; // another pair was asked for meanwhile
      this.found = found;
      this.since = found.since;
    } catch (error) {
      if (turn !== this.turn) return;
      this.found = null;
      this.problem = detailOf(error);
    }
    this.busy = false;
  }
}
