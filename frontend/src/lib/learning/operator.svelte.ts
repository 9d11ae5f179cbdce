/* What an operator can change: the live version, version labels, and whether the model learns.

   action -> OperatorApi with the stored key -> 401: request a key, then repeat the action
*/

import { ApiError, type OperatorApi } from '../api';
import type { QuarantineOutcome, Quarantine, RejectedSnapshot, VersionLabel } from '../schema';
import { ADMIN_KEY, readKey, type KeyStore } from '../ui/identity';
import { messageOf } from '../ui/wording';

export class Operator {
  labels = $state.raw<VersionLabel[]>([]);
  frozen = $state.raw<{ since: string; reason: string } | null>(null);
  refused = $state.raw<RejectedSnapshot[]>([]);
  quarantines = $state.raw<Quarantine[]>([]);
  open = $derived(this.quarantines.find(({ ended_at }) => ended_at === null) ?? null);
  problem = $state<string | null>(null);
  busy = $state(false);
  /** The action that waits for a key. */
  private pendingAction = $state.raw<((key: string | null) => Promise<unknown>) | null>(null);
  needsKey = $derived(this.pendingAction !== null);

  constructor(
    private api: OperatorApi,
    private keys: KeyStore | null,
    private onChange: () => Promise<unknown>,
  ) {}

  async refresh() {
    const [{ labels, frozen, refused }, quarantines] = await Promise.all([
      this.api.versionState(),
      this.api.quarantines(),
    ]);
    this.labels = labels;
    this.frozen = frozen;
    this.refused = refused;
    this.quarantines = quarantines;
  }

  rollBack = (version: string) => this.perform((key) => this.api.rollBack(version, key));
  freeze = (reason: string) => this.perform((key) => this.api.freeze(reason, key));
  thaw = () => this.perform((key) => this.api.thaw(key));
  label = (name: string, version: string) =>
    this.perform((key) => this.api.label(name, version, key));
  unlabel = (name: string) => this.perform((key) => this.api.unlabel(name, key));
  endQuarantine = (outcome: QuarantineOutcome) =>
    this.perform((key) => this.api.endQuarantine(outcome, key));

  async submitKey(key: string) {
    const action = this.pendingAction;
    this.pendingAction = null;
    try {
      this.keys?.setItem(ADMIN_KEY, key);
    } catch {
      // without storage, the key is requested each time
    }
    if (action) await this.perform(action, key);
  }

  cancelKeyRequest() {
    this.pendingAction = null;
    this.problem = null;
  }

  private async perform(
    action: (key: string | null) => Promise<unknown>,
    key = readKey(this.keys),
  ) {
    this.problem = null;
    this.busy = true;
    try {
      await action(key);
      await Promise.all([this.refresh(), this.onChange()]);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.pendingAction = action;
      this.problem =
        error instanceof ApiError && error.status === 401 && key === null ? null : messageOf(error);
    } finally {
      this.busy = false;
    }
  }
}
