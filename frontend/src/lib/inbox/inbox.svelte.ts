/* The inbox: groups of what people said, one of them chosen, and decisions about it.

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
    const wasChosen = this.chosen?.id;
    this.assignees = answer.assignees;
    this.decisions = answer.decisions;
    this.groupCount = answer.group_count;
    this.groups = answer.groups;
    this.problem = null;
    // a group's id is that of its oldest item: after a decision about a part of it, the group stays chosen by its place
    if (!answer.groups.some(({ id }) => id === wasChosen) && before >= 0)
      this.chooseAt(Math.min(before, answer.groups.length - 1));
    this.context.onChange?.();
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

  choose(id: string) {
    if (id === this.chosenId) return;
    [this.chosenId, this.form, this.left] = [id, null, new Set()];
  }

  private chooseAt(place: number) {
    const group = this.groups?.[place];
    if (group) this.choose(group.id);
    else [this.chosenId, this.form, this.left] = [null, null, new Set()];
  }

  /** Choose the next or the previous group. Return whether there is one. */
  step(by: 1 | -1): boolean {
    const place = this.place + by;
    if (this.groups === null || place < 0 || place >= this.groups.length) return false;
    this.chooseAt(place);
    return true;
  }

  toggle(item: InboxItem) {
    const left = new Set(this.left);
    if (!left.delete(item.id)) left.add(item.id);
    this.left = left;
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
      this.context.tell(t.inbox.toasts[action](closed), { undo: () => this.undo(made) });
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

  private announce() {
    const { chosen } = this;
    this.news =
      chosen === null
        ? t.inbox.none
        : t.inbox.next(chosen.questions[0]?.text ?? t.inbox.noQuestion, this.groups?.length ?? 0);
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
