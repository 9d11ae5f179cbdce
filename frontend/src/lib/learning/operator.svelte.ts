/* What an operator can change: the live version, version labels, and whether the model learns. */

import type { OperatorApi } from '../api/learning';
import { t } from '../messages';
import type { Frozen, QuarantineOutcome, Quarantine, RejectedSnapshot, VersionLabel } from '../schema';
import { confirmAction } from '../ui/confirmation.svelte';
import { toast } from '../ui/toasts.svelte';
import { detailOf } from '../ui/problems';
import { isOlder } from './version_list.svelte';

/** The part of a list of versions that is about all of them. */
export interface VersionState {
  labels: VersionLabel[];
  frozen: Frozen | null;
  refused: RejectedSnapshot[];
}

export class Operator {
  labels = $state.raw<VersionLabel[]>([]);
  frozen = $state.raw<Frozen | null>(null);
  refused = $state.raw<RejectedSnapshot[]>([]);
  quarantines = $state.raw<Quarantine[]>([]);
  open = $derived(this.quarantines.find(({ ended_at }) => ended_at === null) ?? null);
  problem = $state<string | null>(null);
  busy = $state(false);

  constructor(
    private api: OperatorApi,
    /** Whether the caller is an operator. Otherwise it sees the versions only. */
    readonly isAllowed: boolean,
    private versionState: () => Promise<VersionState>,
    private onChange: () => unknown,
  ) {}

  async refresh() {
    const [{ labels, frozen, refused }, quarantines] = await Promise.all([
      this.versionState(),
      this.isAllowed ? this.api.quarantines() : [],
    ]);
    this.labels = labels;
    this.frozen = frozen;
    this.refused = refused;
    this.quarantines = quarantines;
  }

  /** freeze: the reason to stop learning as well; null to go on learning. */
  rollBack = (version: string, freeze: string | null = null) => this.perform(() => this.api.rollBack(version, freeze));
  freeze = (reason: string) => this.perform(() => this.api.freeze(reason));
  thaw = () => this.perform(() => this.api.thaw());
  label = (name: string, version: string) => this.perform(() => this.api.label(name, version));
  unlabel = (name: string) => this.perform(() => this.api.unlabel(name));
  endQuarantine = (outcome: QuarantineOutcome) => this.perform(() => this.api.endQuarantine(outcome));

  /** Make another version live, once the person has agreed; returns whether it did. live: the present one. known: what an older version is known for. */
  async switchTo(version: string, live: string | null, known = ''): Promise<boolean> {
    const words = t.learning.actions;
    if (!isOlder(version, live)) {
      const request = {
        title: words.goForwardTitle(version),
        text: words.goForwardText(version),
        action: words.goForwardAction,
      };
      if (!(await confirmAction({ ...request, danger: true }))) return false;
      if (await this.rollBack(version)) toast(words.rolledBack(version));
      return true;
    }
    const option = { label: words.rollBackStop, note: words.rollBackStopNote, checked: true };
    const request = {
      title: words.rollBackTitle(version),
      text: [...(known ? [known] : []), ...words.rollBackText(version)],
      action: words.rollBackAction,
    };
    const asked = { ...request, danger: true, ...(this.frozen ? {} : { option }) };
    if (!(await confirmAction(asked))) return false;
    const stops = !this.frozen && option.checked;
    if (await this.rollBack(version, stops ? words.rollBackReason(version) : null))
      toast((stops ? words.rolledBackStopped : words.rolledBack)(version));
    return true;
  }

  /** Go on learning; returns whether it was agreed to. rolledBackTo: the version that answers since a roll back, which the person is told about first. */
  async resume(rolledBackTo: string | null): Promise<boolean> {
    const words = t.learning.actions;
    const request = { title: words.resumeTitle, action: t.learning.operate.resume };
    const agreed = rolledBackTo === null || (await confirmAction({ ...request, text: words.resumeText(rolledBackTo) }));
    if (agreed) await this.thaw();
    return agreed;
  }

  /** Returns whether the person agreed. */
  async freezeConfirmed(reason = ''): Promise<boolean> {
    const words = t.learning.actions;
    const request = {
      title: words.freezeTitle,
      text: words.freezeText,
      action: words.freezeAction,
    };
    if (!(await confirmAction(request))) return false;
    if (await this.freeze(reason)) toast(words.frozen, { undo: () => this.thaw() });
    return true;
  }

  /** since: when the feedback in question begins, in words. */
  async endConfirmed(outcome: QuarantineOutcome, since: string): Promise<void> {
    const words = t.learning.operate;
    const drops = outcome === 'dropped';
    const agreed = await confirmAction({
      title: drops ? words.dropTitle : words.keepTitle,
      text: drops ? words.dropText(since) : words.keepText(since),
      action: drops ? words.drop : words.keep,
      danger: drops,
    });
    if (agreed) await this.endQuarantine(outcome);
  }

  /** Returns whether it succeeded. */
  private async perform(action: () => Promise<unknown>): Promise<boolean> {
    this.problem = null;
    this.busy = true;
    try {
      await action();
      await Promise.all([this.refresh(), this.onChange()]);
      return true;
    } catch (error) {
      this.problem = detailOf(error);
      return false;
    } finally {
      this.busy = false;
    }
  }
}
