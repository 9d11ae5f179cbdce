/* What an operator can change: the live version, version labels, and whether the model learns. */

import type { OperatorApi } from '../api';
import type { QuarantineOutcome, Quarantine, RejectedSnapshot, VersionLabel } from '../schema';
import { messageOf } from '../ui/wording';

export class Operator {
  labels = $state.raw<VersionLabel[]>([]);
  frozen = $state.raw<{ since: string; reason: string } | null>(null);
  refused = $state.raw<RejectedSnapshot[]>([]);
  quarantines = $state.raw<Quarantine[]>([]);
  open = $derived(this.quarantines.find(({ ended_at }) => ended_at === null) ?? null);
  problem = $state<string | null>(null);
  busy = $state(false);

  constructor(
    private api: OperatorApi,
    /** Whether the caller is an operator. Otherwise it sees the versions only. */
    readonly isAllowed: boolean,
    private onChange: () => Promise<unknown>,
  ) {}

  async refresh() {
    const [{ labels, frozen, refused }, quarantines] = await Promise.all([
      this.api.versionState(),
      this.isAllowed ? this.api.quarantines() : [],
    ]);
    this.labels = labels;
    this.frozen = frozen;
    this.refused = refused;
    this.quarantines = quarantines;
  }

  rollBack = (version: string) => this.perform(() => this.api.rollBack(version));
  freeze = (reason: string) => this.perform(() => this.api.freeze(reason));
  thaw = () => this.perform(() => this.api.thaw());
  label = (name: string, version: string) => this.perform(() => this.api.label(name, version));
  unlabel = (name: string) => this.perform(() => this.api.unlabel(name));
  endQuarantine = (outcome: QuarantineOutcome) =>
    this.perform(() => this.api.endQuarantine(outcome));

  private async perform(action: () => Promise<unknown>) {
    this.problem = null;
    this.busy = true;
    try {
      await action();
      await Promise.all([this.refresh(), this.onChange()]);
    } catch (error) {
      this.problem = messageOf(error);
    } finally {
      this.busy = false;
    }
  }
}
