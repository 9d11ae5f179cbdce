/* What an operator may change: which version answers, what versions are called, whether anything is learned.

   act -> OperatorApi, with the key this tab knows -> refused for want of one: it is asked for, and the act done again
*/

import { ApiError, type OperatorApi } from './api';
import type { Outcome, Quarantine, RefusedCandidate, VersionLabel } from './schema';
import { ADMIN_KEY, knownKey, type Keys } from './identity';
import { messageOf } from './words';


export class Operator {
  labels = $state.raw<VersionLabel[]>([]);
  frozen = $state.raw<{ since: string; reason: string } | null>(null);
  refused = $state.raw<RefusedCandidate[]>([]);
  quarantines = $state.raw<Quarantine[]>([]);
  open = $derived(this.quarantines.find(({ ended_at }) => ended_at === null) ?? null);
  problem = $state<string | null>(null);
  busy = $state(false);
  /** What is to be done once the key is there. */
  private waiting = $state.raw<((key: string | null) => Promise<unknown>) | null>(null);
  wantsKey = $derived(this.waiting !== null);

  constructor(
    private api: OperatorApi,
    private keys: Keys | null,
    private done: () => Promise<unknown>,
  ) {}

  async look() {
    const [{ labels, frozen, refused }, quarantines] = await Promise.all([this.api.standing(), this.api.quarantines()]);
    this.labels = labels;
    this.frozen = frozen;
    this.refused = refused;
    this.quarantines = quarantines;
  }

  rollBack = (version: string) => this.act((key) => this.api.rollBack(version, key));
  freeze = (reason: string) => this.act((key) => this.api.freeze(reason, key));
  thaw = () => this.act((key) => this.api.thaw(key));
  label = (name: string, version: string) => this.act((key) => this.api.label(name, version, key));
  unlabel = (name: string) => this.act((key) => this.api.unlabel(name, key));
  endQuarantine = (outcome: Outcome) => this.act((key) => this.api.endQuarantine(outcome, key));

  async withKey(key: string) {
    const act = this.waiting;
    this.waiting = null;
    try {
      this.keys?.setItem(ADMIN_KEY, key);
    } catch {
      // then it is asked for every time
    }
    if (act) await this.act(act, key);
  }

  withoutKey() {
    this.waiting = null;
    this.problem = null;
  }

  private async act(act: (key: string | null) => Promise<unknown>, key = knownKey(this.keys)) {
    this.problem = null;
    this.busy = true;
    try {
      await act(key);
      await Promise.all([this.look(), this.done()]);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.waiting = act;
      this.problem = error instanceof ApiError && error.status === 401 && key === null ? null : messageOf(error);
    } finally {
      this.busy = false;
    }
  }
}
