/* The inbox of one model: groups of what people said, one of them chosen, and decisions about it.

   groups -> chosen -> decide -> notice with undo -> the next group is chosen
   events, an undo, another curator's decision -> refresh
*/

import { ApiError } from '../http';
import type { InboxApi, InboxQuery } from '../api/inbox';
import { t } from '../messages';
import type { DecideRequest, InboxAction, InboxAnswer, InboxDecision, InboxGroup, InboxItem } from '../schema';
import { coalesce } from '../ui/coalesce';
import type { Pause } from '../ui/live_status.svelte';
import { problemOf } from '../ui/problems';
import { Newest } from '../ui/newest';
import { truncate } from '../ui/wording';
import { nameCaller } from './callers';
import { suggestionsOf } from './effect';
import { matterOf } from './matter';
import { titleOf } from './titles';

const REST_MS = 1000;
const MAX_DECIDED = 200; // items of one request
const MAX_TITLE_CHARS = 80; // in a notice

export type View = 'open' | 'done';
export type Filter = 'anybody' | 'me' | 'nobody';
export type Order = 'newest' | 'largest';
export type Only = 'all' | 'waiting' | 'thumb_down' | 'new_reply';
/** The form that is open below the actions. */
export type Form = 'merge' | 'reply' | 'reject' | null;
type Extra = Pick<DecideRequest, 'reply' | 'text' | 'reason'>;
/** Decisions that were made at once. title: the name of their group. groupCount: how many groups they closed. */
interface Made {
  ids: string[];
  title: string | null;
  groupCount?: number;
}

/** What was just done or refused. */
export interface Notice {
  text: string;
  undo?: () => Promise<boolean>;
  tone?: 'plain' | 'problem';
}

interface Dependencies {
  api: InboxApi;
  pause: Pause;
  newId: () => string;
  /** The id of the caller; null if it is not known. */
  self: () => string | null;
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
  /** How many groups fit the filters and the search. */
  foundCount = $state(0);
  view = $state<View>('open');
  filter = $state<Filter>('anybody');
  order = $state<Order>('newest');
  only = $state<Only>('all');
  /** The words of the search. */
  words = $state('');
  form = $state<Form>(null);
  problem = $state<string | null>(null);
  busy = $state(false);
  /** About the last decision: a newer one takes its place. */
  notice = $state.raw<Notice | null>(null);
  /** What has just happened, for screen readers. */
  news = $state('');
  /** The last news about what is left. */
  private announced: string | null = null;
  /** Groups that were decided since the page was opened. */
  doneCount = $state(0);
  /** Ids of items of the chosen group that are left out of the next decision. */
  left = $state.raw<ReadonlySet<string>>(new Set());

  private chosenId = $state<string | null>(null);
  private suggestionKey = $state<string | null>(null);
  private typing = new Newest();
  private lastDecisions: Made[] = []; // those that can be undone

  chosen = $derived(this.groups?.find(({ id }) => id === this.chosenId) ?? this.groups?.[0] ?? null);
  place = $derived(this.chosen === null ? -1 : (this.groups?.indexOf(this.chosen) ?? -1));
  selected = $derived(this.chosen?.items.filter(({ id }) => !this.left.has(id)) ?? []);
  /** The different replies that the selected items suggest. */
  suggestions = $derived(suggestionsOf(this.selected));
  /** The one of several suggestions that is right. */
  suggestion = $derived(this.suggestions.find(({ key }) => key === this.suggestionKey) ?? null);
  /** How many filters are set, without the search. */
  filterCount = $derived(Number(this.filter !== 'anybody') + Number(this.only !== 'all'));
  isFiltered = $derived(this.filterCount > 0 || this.words !== '');

  readonly refresh: () => void;

  constructor(private context: Dependencies) {
    this.refresh = coalesce(() => this.load(), context.pause, REST_MS);
  }

  async load(): Promise<void> {
    const query = this.query;
    try {
      const answer = await this.context.api.inbox(query);
      if (JSON.stringify(query) === JSON.stringify(this.query)) this.take(answer);
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  private get query(): InboxQuery {
    const { view, filter, order, only } = this;
    const q = this.words.trim();
    return {
      state: view,
      sort: order,
      ...(filter === 'anybody' ? {} : { assignee: filter }),
      ...(only === 'all' ? {} : { only }),
      ...(q === '' ? {} : { q }),
    };
  }

  private take(answer: InboxAnswer) {
    const before = this.place;
    const wasChosen = this.groups === null ? this.chosenId : this.chosen?.id;
    this.assignees = answer.assignees;
    this.decisions = answer.decisions;
    [this.groupCount, this.foundCount] = [answer.group_count, answer.found_count];
    const hadCount = this.groups?.length;
    this.groups = answer.groups;
    this.problem = null;
    if (this.view === 'open') this.keepChosen(answer.groups, wasChosen ?? null, before);
    if (this.news === this.announced && hadCount !== answer.groups.length) this.announce();
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
    this.notice = { text: t.inbox.groupGone };
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
    [this.view, this.form, this.groups, this.notice] = [view, null, null, null];
    return this.load();
  }

  setFilter(filter: Filter) {
    this.filter = filter;
    return this.load();
  }

  setOnly(only: Only) {
    this.only = only;
    return this.load();
  }

  /** Search for groups with these words, after a pause in typing. */
  async search(words: string): Promise<void> {
    this.words = words;
    if ((await this.typing.beginAfterTyping(this.context.pause)) !== null) await this.load();
  }

  /** Show all groups again. */
  unfilter() {
    [this.filter, this.only, this.words] = ['anybody', 'all', ''];
    return this.load();
  }

  setOrder(order: Order) {
    this.order = order;
    return this.load();
  }

  /** id: null for the first one. */
  choose(id: string | null) {
    if (id === this.chosenId) return;
    [this.chosenId, this.form, this.left, this.suggestionKey] = [id, null, new Set(), null];
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

  /** Select these items of the chosen group only. */
  selectOnly(items: readonly InboxItem[]) {
    this.left = new Set(this.chosen?.items.filter((item) => !items.includes(item)).map(({ id }) => id));
  }

  /** key: that of the suggestion that is right. */
  suggest(key: string) {
    this.suggestionKey = key;
  }

  open(form: Form) {
    this.form = this.form === form ? null : form;
  }

  /** Approve the selected items. Of several suggestions, teach the one that is right; without it nothing happens. */
  async approve(): Promise<boolean> {
    const { suggestion } = this;
    if (this.suggestions.length < 2) return this.decide('approve');
    if (suggestion === null) return false;
    return suggestion.reply === null
      ? this.decide('reply', { text: suggestion.text })
      : this.decide('merge', { reply: suggestion.reply });
  }

  /** Decide about the selected items of the chosen group. Return whether it was done. */
  async decide(action: InboxAction, extra: Extra = {}): Promise<boolean> {
    const { chosen, selected } = this;
    if (this.busy || chosen === null || selected.length === 0) return false;
    const isWhole = selected.length === chosen.items.length;
    const place = this.place;
    return this.carryOut(selected, action, extra, (ids, closed) => {
      if (isWhole) this.remove(chosen, place);
      else this.keepLeft(chosen);
      const text = t.inbox.toasts[action](closed, matterOf(selected), truncate(titleOf(chosen), MAX_TITLE_CHARS));
      return { text, ids, title: titleOf(chosen), groupCount: isWhole ? 1 : 0 };
    });
  }

  /** The person on whose behalf something was said. */
  private holderOf = ({ user, caller }: InboxItem) => user ?? caller;

  /** All that the person who said this has said, of what is listed. Empty where the person is not known. */
  itemsOf(item: InboxItem): InboxItem[] {
    const holder = this.holderOf(item);
    if (holder === null) return [];
    const items = (this.groups ?? []).flatMap(({ items }) => items);
    return items.filter((one) => this.holderOf(one) === holder);
  }

  /** Reject all that the person who said this has said, of what is listed, at once. Return whether it was done. */
  async rejectAllOf(item: InboxItem): Promise<boolean> {
    const items = this.itemsOf(item);
    if (this.busy || items.length === 0) return false;
    const title = this.chosen && titleOf(this.chosen);
    return this.carryOut(items, 'reject', {}, (ids, closed) => {
      const place = this.place;
      const before = this.groups ?? [];
      const isLeft = ({ id }: InboxItem) => !items.some((one) => one.id === id);
      const groups = before.flatMap((group) => {
        const left = group.items.filter(isLeft);
        return left.length === 0 ? [] : [{ ...group, items: left, id: left.at(-1)!.id }];
      });
      const groupCount = before.length - groups.length;
      this.groups = groups;
      this.groupCount -= groupCount;
      this.chooseAt(Math.min(place, groups.length - 1));
      const text = t.inbox.toasts.rejectAll(closed, nameCaller(this.holderOf(item)));
      return { text, ids, title, groupCount };
    });
  }

  /** Send a decision, in parts, and let it be undone as one. apply: takes the items from the list. */
  private async carryOut(
    items: readonly InboxItem[],
    action: InboxAction,
    extra: Extra,
    apply: (ids: string[], closed: number) => Made & { text: string; groupCount: number },
  ): Promise<boolean> {
    const all = items.map(({ id }) => id);
    this.busy = true;
    try {
      const made: string[] = [];
      let closed = 0;
      for (let at = 0; at < all.length; at += MAX_DECIDED) {
        const ids = all.slice(at, at + MAX_DECIDED);
        const request = { ids, action, id: this.context.newId(), ...extra };
        const decided = await this.context.api.decide(request);
        made.push(decided.decision);
        closed += decided.closed;
      }
      const { text, ...decided } = apply(made, closed);
      this.lastDecisions.push(decided);
      this.doneCount += decided.groupCount;
      this.form = null;
      this.notice = { text, undo: () => this.undo(decided) };
      this.announce();
      return true;
    } catch (error) {
      this.complain(error);
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
    [this.chosenId, this.left, this.suggestionKey] = [remaining.id, new Set(), null];
  }

  private announce() {
    const { chosen } = this;
    this.announced = chosen === null ? t.inbox.none : t.inbox.next(titleOf(chosen), this.groups?.length ?? 0);
    this.news = this.announced;
  }

  private complain(error: unknown) {
    this.notice = { text: describe(error, this.context.self()), tone: 'problem' };
  }

  /** Take decisions back, the last ones that were made here by default, and choose their group. said: what is shown then. */
  async undo(made = this.lastDecisions.at(-1), said = t.inbox.toasts.undone): Promise<boolean> {
    if (made === undefined) {
      this.notice = { text: t.inbox.nothingToUndo };
      return false;
    }
    try {
      for (const decision of [...made.ids].reverse()) await this.context.api.undo(decision);
      this.lastDecisions = this.lastDecisions.filter((one) => one !== made);
      this.doneCount -= made.groupCount ?? 0;
      this.notice = { text: said };
      await this.load();
      const group = this.groups?.find((one) => titleOf(one) === made.title);
      if (group) this.choose(group.id);
      return true;
    } catch (error) {
      this.complain(error);
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
      this.news = named === null ? t.inbox.unassigned : t.inbox.assignedTo(nameCaller(named, this.context.self()));
    } catch (error) {
      this.complain(error);
    }
  }
}

/** A sentence about a refused decision: who was faster, if somebody was. */
export function describe(error: unknown, self: string | null): string {
  const { by, action } = error instanceof ApiError ? error.details : {};
  if (by === undefined || action === undefined || !(action in t.inbox.already))
    return error instanceof ApiError && error.status === 404 ? t.inbox.toasts.gone : problemOf(error);
  return t.inbox.already[action as keyof typeof t.inbox.already](nameCaller(by, self));
}
