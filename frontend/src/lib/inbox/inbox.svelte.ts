/* The inbox of one model: groups of what people said, one of them chosen, and decisions about it.

   groups -> chosen -> decide -> toast with undo -> the next group is chosen
   events, an undo, another curator's decision -> refresh
*/

import { ApiError, type InboxApi } from '../api';
import { t } from '../messages';
import type {
  DecideRequest,
  InboxAction,
  InboxAnswer,
  InboxDecision,
  InboxGroup,
  InboxItem,
} from '../schema';
import { coalesce } from '../ui/coalesce';
import type { Pause } from '../ui/live_status.svelte';
import { problemOf } from '../ui/problems';
import { nameCaller } from './callers';
import { titleOf } from './titles';

const REST_MS = 1000;
const MAX_DECIDED = 200; // items of one request

export type View = 'open' | 'done';
export type Filter = 'anybody' | 'me' | 'nobody';
export type Order = 'newest' | 'largest';
/** The form that is open below the actions. */
export type Form = 'merge' | 'reply' | 'reject' | null;
type Extra = Pick<DecideRequest, 'reply' | 'text' | 'reason'>;

interface Dependencies {
  api: InboxApi;
  pause: Pause;
  newId: () => string;
  /** The id of the caller; null if it is not known. */
  self: () => string | null;
  /** Shows a message, which may be taken back. */
  tell: (text: string, options?: { undo?: () => unknown; tone?: 'plain' | 'problem' }) => void;
  /** Called when the number of groups has changed. */
  onChange?: () => void;
  /** Called when the chosen group is gone and another one is chosen in its place; null: none. */
  onReplace?: (group: string | null) => void;
}

export class Inbox {
  /** null until the service has answered. */
  groups = $state.raw<InboxGroup[] | null>(null);
  decisions = $state.raw<InboxDecision[]>([]);
  assignees = $state.raw<string[]>([]);
  groupCount = $state(0);
  view = $state<View>('open');
  filter = $state<Filter>('anybody');
  order = $state<Order>('newest');
  form = $state<Form>(null);
  problem = $state<string | null>(null);
  busy = $state(false);
  /** What has just happened, for screen readers. */
  news = $state('');
  /** Groups that were decided since the page was opened. */
  doneCount = $state(0);
  /** Ids of items of the chosen group that are left out of the next decision. */
  left = $state.raw<ReadonlySet<string>>(new Set());

  private chosenId = $state<string | null>(null);
  private lastDecisions: string[][] = []; // the ids of each decision that can be undone

  chosen = $derived(
    this.groups?.find(({ id }) => id === this.chosenId) ?? this.groups?.[0] ?? null,
  );
  place = $derived(this.chosen === null ? -1 : (this.groups?.indexOf(this.chosen) ?? -1));
  selected = $derived(this.chosen?.items.filter(({ id }) => !this.left.has(id)) ?? []);

  readonly refresh: () => void;

  constructor(private context: Dependencies) {
    this.refresh = coalesce(() => this.load(), context.pause, REST_MS);
  }

  async load(): Promise<void> {
    const { view, filter, order } = this;
    try {
      const answer = await this.context.api.inbox({
        state: view,
        sort: order,
        ...(filter === 'anybody' ? {} : { assignee: filter }),
      });
      if (view === this.view && filter === this.filter && order === this.order) this.take(answer);
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  private take(answer: InboxAnswer) {
    const before = this.place;
    const wasChosen = this.groups === null ? this.chosenId : this.chosen?.id;
    this.assignees = answer.assignees;
    this.decisions = answer.decisions;
    this.groupCount = answer.group_count;
    this.groups = answer.groups;
    this.problem = null;
    if (this.view === 'open') this.keepChosen(answer.groups, wasChosen ?? null, before);
    this.context.onChange?.();
  }

  /** A group's id is that of its oldest item: after a decision about a part of it, it stays chosen by its place. */
  private keepChosen(groups: InboxGroup[], wasChosen: string | null, before: number) {
    if (wasChosen !== null && !groups.some(({ id }) => id === wasChosen)) {
      if (before < 0) return this.lose();
      this.chooseAt(Math.min(before, groups.length - 1));
      this.context.onReplace?.(this.chosenId);
    }
    this.choose(this.chosenId ?? groups[0]?.id ?? null); // so that a newer group does not take its place
  }

  /** The group of an address is not open any more: the first one is chosen. */
  private lose() {
    this.context.tell(t.inbox.groupGone);
    this.chooseAt(0);
    this.context.onReplace?.(null);
  }

  /** Show what an address names; null for the list. */
  arrive(group: string | null) {
    if (group !== null && this.view === 'done') void this.show('open');
    this.choose(group);
    if (group !== null && this.groups?.some(({ id }) => id === group) === false) this.lose();
  }

  show(view: View) {
    [this.view, this.form, this.groups] = [view, null, null];
    return this.load();
  }

  setFilter(filter: Filter) {
    this.filter = filter;
    return this.load();
  }

  setOrder(order: Order) {
    this.order = order;
    return this.load();
  }

  /** id: null for the first one. */
  choose(id: string | null) {
    if (id === this.chosenId) return;
    [this.chosenId, this.form, this.left] = [id, null, new Set()];
  }

  private chooseAt(place: number) {
    this.choose(this.groups?.[place]?.id ?? null);
  }

  /** The id of the next or the previous group; null if there is none. */
  neighbour(by: 1 | -1): string | null {
    return this.groups?.[this.place + by]?.id ?? null;
  }

  toggle(item: InboxItem) {
    const left = new Set(this.left);
    if (!left.delete(item.id)) left.add(item.id);
    this.left = left;
  }

  /** Select all items of the chosen group, or none. */
  selectAll(isSelected: boolean) {
    this.left = new Set(isSelected ? [] : this.chosen?.items.map(({ id }) => id));
  }

  open(form: Form) {
    this.form = this.form === form ? null : form;
  }

  /** Decide about the selected items of the chosen group. Return whether it was done. */
  async decide(action: InboxAction, extra: Extra = {}): Promise<boolean> {
    const { chosen, selected } = this;
    if (this.busy || chosen === null || selected.length === 0) return false;
    const ids = selected.map(({ id }) => id);
    const isWhole = selected.length === chosen.items.length;
    const place = this.place;
    this.busy = true;
    try {
      const made: string[] = [];
      let closed = 0;
      for (let at = 0; at < ids.length; at += MAX_DECIDED) {
        const part = ids.slice(at, at + MAX_DECIDED);
        const request = { ids: part, action, id: this.context.newId(), ...extra };
        const decided = await this.context.api.decide(request);
        made.push(decided.decision);
        closed += decided.closed;
      }
      this.lastDecisions.push(made);
      this.doneCount += isWhole ? 1 : 0;
      this.form = null;
      if (isWhole) this.remove(chosen, place);
      else this.keepLeft(chosen);
      const what = chosen.items.every(({ kind }) => kind === 'label')
        ? t.inbox.examples(closed)
        : t.inbox.items(closed);
      this.context.tell(t.inbox.toasts[action](what), { undo: () => this.undo(made) });
      this.announce();
      return true;
    } catch (error) {
      this.context.tell(describe(error, this.context.self()), { tone: 'problem' });
      return false;
    } finally {
      this.busy = false;
      this.refresh();
    }
  }

  private remove(group: InboxGroup, place: number) {
    const groups = (this.groups ?? []).filter(({ id }) => id !== group.id);
    this.groups = groups;
    this.groupCount -= 1;
    this.chooseAt(Math.min(place, groups.length - 1));
  }

  /** What was left out of a decision is what remains of a group. */
  private keepLeft(group: InboxGroup) {
    const items = group.items.filter(({ id }) => this.left.has(id));
    const remaining = { ...group, items, id: items.at(-1)?.id ?? group.id };
    this.groups = (this.groups ?? []).map((one) => (one.id === group.id ? remaining : one));
    [this.chosenId, this.left] = [remaining.id, new Set()];
  }

  private announce() {
    const { chosen } = this;
    this.news =
      chosen === null ? t.inbox.none : t.inbox.next(titleOf(chosen), this.groups?.length ?? 0);
  }

  /** Take decisions back; the last ones that were made here by default. */
  async undo(decisions = this.lastDecisions.at(-1)): Promise<boolean> {
    if (decisions === undefined) {
      this.context.tell(t.inbox.nothingToUndo);
      return false;
    }
    try {
      for (const decision of [...decisions].reverse()) await this.context.api.undo(decision);
      const known = this.lastDecisions.length;
      this.lastDecisions = this.lastDecisions.filter((made) => made !== decisions);
      this.doneCount -= this.lastDecisions.length < known && this.doneCount > 0 ? 1 : 0;
      this.news = t.inbox.toasts.undone;
      await this.load();
      return true;
    } catch (error) {
      this.context.tell(describe(error, this.context.self()), { tone: 'problem' });
      return false;
    }
  }

  /** assignee: null for nobody. */
  async assign(assignee: string | null): Promise<void> {
    const { chosen } = this;
    if (chosen === null) return;
    try {
      const ids = chosen.items.map(({ id }) => id).slice(0, MAX_DECIDED);
      await this.context.api.assign(ids, assignee);
      await this.load();
      const named = this.groups?.find(({ id }) => id === chosen.id)?.assignee ?? null;
      this.news =
        named === null
          ? t.inbox.unassigned
          : t.inbox.assignedTo(nameCaller(named, this.context.self()));
    } catch (error) {
      this.context.tell(describe(error, this.context.self()), { tone: 'problem' });
    }
  }
}

/** A sentence about a refused decision: who was faster, if somebody was. */
export function describe(error: unknown, self: string | null): string {
  const { by, action } = error instanceof ApiError ? error.details : {};
  if (by === undefined || action === undefined || !(action in t.inbox.already))
    return error instanceof ApiError && error.status === 404
      ? t.inbox.toasts.gone
      : problemOf(error);
  return t.inbox.already[action as keyof typeof t.inbox.already](nameCaller(by, self));
}
