import { expect, test } from 'vitest';
import { ApiError, type InboxApi, type InboxQuery } from '../../src/lib/api';
import { nameCaller } from '../../src/lib/inbox/callers';
import { describeApproval } from '../../src/lib/inbox/effect';
import { Inbox } from '../../src/lib/inbox/inbox.svelte';
import { countInboxes, InboxCounter } from '../../src/lib/inbox/inbox_count.svelte';
import { keyActionFor, keyOf } from '../../src/lib/inbox/keys';
import { drawingOf, titleOf, titleOfDecision } from '../../src/lib/inbox/titles';
import { t } from '../../src/lib/messages';
import type { DecideRequest, InboxGroup, InboxItem, ModelCard } from '../../src/lib/schema';
import { settle } from '../fake';

const AT = '2026-11-21T09:00:00Z';

const item = (id: string, more: Partial<InboxItem> = {}): InboxItem => ({
  id,
  kind: 'new_reply',
  state: 'held',
  hold: 'review',
  question: 'Do you have a garden?',
  instance: null,
  label: null,
  prediction_id: `p-${id}`,
  asked_at: AT,
  answered: null,
  correction: 'Behind the house.',
  reply: null,
  scope: null,
  reason: null,
  comment: null,
  caller: 'visitor:1f2e3d4c5b',
  user: null,
  created_at: AT,
  assignee: null,
  ...more,
});

const group = (id: string, ...ids: string[]): InboxGroup => ({
  id,
  label: null,
  questions: [{ text: `About ${id}?`, count: 1 }],
  items: [id, ...ids].map((each) => item(each)),
  newest_at: AT,
  assignee: null,
});

class FakeInboxApi implements InboxApi {
  all = [group('a', 'a2'), group('b'), group('c')];
  calls: string[] = [];
  error: Error | null = null;
  private count_ = 0;

  events = () => () => {};

  async inbox({ state, assignee }: InboxQuery) {
    const groups = state === 'open' && assignee === undefined ? this.all : [];
    return {
      groups,
      decisions: [],
      group_count: this.all.length,
      item_count: 4,
      assignees: ['key:me', 'key:olga'],
    };
  }

  async count() {
    return { groups: this.all.length, items: 4, mine: 0 };
  }

  async decide({ ids, action, reply, text, reason }: DecideRequest) {
    this.calls.push([action, ...ids, reply ?? text ?? reason ?? ''].join(' ').trim());
    if (this.error) throw this.error;
    this.all = this.all.flatMap((one) => {
      const items = one.items.filter(({ id }) => !ids.includes(id));
      const id = items.length < one.items.length ? (items.at(-1)?.id ?? '') : one.id;
      return items.length > 0 ? [{ ...one, id, items }] : [];
    });
    const decision = `d${++this.count_}`;
    return { decision, action, closed: ids.length, offset: 7, skipped: [] };
  }

  async undo(decision: string) {
    this.calls.push(`undo ${decision}`);
  }

  async assign(ids: string[], assignee: string | null) {
    this.calls.push(`assign ${ids.join(' ')} ${assignee}`);
    this.all = this.all.map((one) =>
      one.items.some(({ id }) => ids.includes(id))
        ? { ...one, assignee: assignee === 'me' ? 'key:me' : assignee }
        : one,
    );
  }

  async findReplies() {
    return [];
  }
}

async function openInbox(address: string | null = null) {
  const api = new FakeInboxApi();
  const told: { text: string; undo?: () => unknown }[] = [];
  const replaced: (string | null)[] = [];
  let ids = 0;
  const inbox = new Inbox({
    api,
    pause: () => settle(),
    newId: () => `n${++ids}`,
    self: () => 'key:me',
    tell: (text, options) => void told.push({ text, ...options }),
    onReplace: (id) => void replaced.push(id),
  });
  if (address !== null) inbox.arrive(address);
  await inbox.load();
  return { api, inbox, told, replaced };
}

test('after a decision the group in its place is chosen, and the next one is told', async () => {
  const { api, inbox, told } = await openInbox();
  inbox.choose('b');
  expect(await inbox.decide('approve')).toBe(true);
  expect([inbox.chosen?.id, inbox.doneCount, inbox.groupCount]).toEqual(['c', 1, 2]);
  expect([inbox.news, told[0]?.text]).toEqual(['2 left. Next: About c?', 'Approved: 1 message']);
  await inbox.decide('reject', { reason: 'Spam' });
  await inbox.decide('merge', { reply: 'hours' });
  expect([inbox.chosen, inbox.news]).toEqual([null, 'Nothing left.']);
  expect(api.calls).toEqual(['approve b', 'reject c Spam', 'merge a a2 hours']);
});

test('items that are left out stay, and so does their group', async () => {
  const { api, inbox } = await openInbox();
  inbox.toggle(inbox.chosen!.items[1]!);
  await inbox.decide('approve');
  expect(api.calls).toEqual(['approve a']);
  expect([inbox.chosen?.id, inbox.doneCount, inbox.selected.length]).toEqual(['a2', 0, 1]);
  await settle();
  expect([inbox.chosen?.id, inbox.selected.length, inbox.groups?.length]).toEqual(['a2', 1, 3]);
});

test('the last decision can be taken back, also by its toast', async () => {
  const { api, inbox, told } = await openInbox();
  await inbox.decide('approve');
  await inbox.decide('approve');
  await told[0]!.undo!();
  expect(await inbox.undo()).toBe(true);
  expect(await inbox.undo()).toBe(false);
  expect(api.calls).toEqual(['approve a a2', 'approve b', 'undo d1', 'undo d2']);
  expect([inbox.doneCount, told.at(-1)?.text]).toEqual([0, 'There is nothing to undo.']);
});

test('a curator who comes second is told who decided what', async () => {
  const { api, inbox, told } = await openInbox();
  api.error = new ApiError('no', 409, null, { by: 'key:olga', action: 'reject' });
  expect(await inbox.decide('approve')).toBe(false);
  api.error = new ApiError('no', 404);
  await inbox.decide('approve');
  expect(told.map(({ text }) => text)).toEqual([
    'Nothing changed: olga has rejected this already.',
    'It was withdrawn meanwhile.',
  ]);
  expect(inbox.busy).toBe(false);
});

test('a group is assigned, and a filter shows what is assigned', async () => {
  const { api, inbox } = await openInbox();
  await inbox.assign('me');
  expect([api.calls, inbox.chosen?.assignee]).toEqual([['assign a a2 me'], 'key:me']);
  expect(inbox.news).toBe('Assigned to you');
  await inbox.setFilter('nobody');
  expect([inbox.groups, inbox.groupCount]).toEqual([[], 3]);
});

test('the steps through the groups end at both ends', async () => {
  const { inbox } = await openInbox();
  expect([inbox.neighbour(-1), inbox.neighbour(1)]).toEqual([null, 'b']);
  inbox.choose('c');
  expect([inbox.neighbour(-1), inbox.neighbour(1)]).toEqual(['b', null]);
});

test('an address chooses its group, or says that it is not open any more', async () => {
  const { inbox, told, replaced } = await openInbox('c');
  expect([inbox.chosen?.id, told, replaced]).toEqual(['c', [], []]);
  inbox.arrive('b');
  expect(inbox.chosen?.id).toBe('b');
  inbox.arrive(null);
  expect(inbox.chosen?.id).toBe('a');
  inbox.arrive('gone');
  expect([inbox.chosen?.id, told.length, replaced]).toEqual(['a', 1, [null]]);
  const late = await openInbox('gone');
  expect([late.inbox.chosen?.id, late.told[0]?.text, late.replaced]).toEqual([
    'a',
    'This group is not open any more.',
    [null],
  ]);
});

test('the chosen group stays chosen when a newer one arrives, and is replaced when it is gone', async () => {
  const { api, inbox, replaced } = await openInbox();
  api.all = [group('new'), ...api.all];
  await inbox.load();
  expect([inbox.chosen?.id, replaced]).toEqual(['a', []]);
  api.all = api.all.filter(({ id }) => id !== 'a');
  await inbox.load();
  expect([inbox.chosen?.id, replaced]).toEqual(['b', ['b']]);
});

test('all items of a group are selected, or none', async () => {
  const { inbox } = await openInbox();
  inbox.selectAll(false);
  expect(inbox.selected).toEqual([]);
  expect(await inbox.decide('approve')).toBe(false);
  inbox.selectAll(true);
  expect(inbox.selected.map(({ id }) => id)).toEqual(['a', 'a2']);
});

test('examples are named by their name, and counted as such', async () => {
  const drawing = new Array<number>(64).fill(3);
  const star = { kind: 'label', label: 'star', correction: null, question: null } as const;
  const { api, inbox, told } = await openInbox();
  api.all = [{ ...group('s'), label: 'star', questions: [], items: [item('s', star)] }, group('b')];
  await inbox.load();
  expect(titleOf(api.all[0]!)).toBe('star');
  expect(describeApproval([item('s', star), item('t', star)])).toBe(
    'Approve: the bot learns 2 examples of “star”.',
  );
  inbox.choose('s');
  await inbox.decide('approve');
  expect(told.at(-1)?.text).toBe('Approved: 1 example');
  const instances = [drawing, drawing.slice(1), 'star', null, [...drawing.slice(1), null]];
  expect(instances.map((instance) => drawingOf({ instance }) !== null)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
  const answered = { id: '7', text: '7' };
  const thumb = { ...star, kind: 'thumb_down', label: null, answered } as const;
  expect(titleOf({ ...group('t'), questions: [], items: [item('t', thumb)] })).toBe(
    '“7” was wrong',
  );
});

test('an addition is named by its first reply', () => {
  const added = { replies: ['We lend games.'], reply_count: 2, example_count: 1 };
  const decision = { id: 'd', by: 'key:tina', at: AT, reason: null, reply: null, items: [] };
  expect(titleOfDecision({ ...decision, action: 'add', questions: ['Q?'], added })).toBe(
    'We lend games.',
  );
  expect(titleOfDecision({ ...decision, action: 'dismiss', questions: ['Q?'], added: null })).toBe(
    'Q?',
  );
  expect([t.inbox.added(2, 1), t.inbox.added(0, 2)]).toEqual([
    '2 new replies, 1 example question',
    '2 example questions',
  ]);
});

test('a key with a modifier is not a decision, and a key held down counts once', () => {
  const press = (key: string, more = {}) =>
    keyActionFor({ key, ctrlKey: false, metaKey: false, altKey: false, repeat: false, ...more });
  expect([press('A'), press('x'), press('q'), press('?')]).toEqual([
    'approve',
    'reject',
    null,
    'help',
  ]);
  expect([press('a', { ctrlKey: true }), press('a', { repeat: true })]).toEqual([null, null]);
  expect([press('j', { repeat: true }), keyOf('undo')]).toEqual(['next', 'Z']);
});

test('callers have short names', () => {
  const names = ['visitor:1f2e3d4c5b', 'key:olga', 'user:ann', 'local', 'key:me', null];
  expect(names.map((id) => nameCaller(id, 'key:me'))).toEqual([
    'Visitor 1f2e3d',
    'olga',
    'ann',
    'This machine',
    'you',
    'Unknown',
  ]);
});

test('the counter keeps the last number when the service does not answer', async () => {
  let answers = [3, null, 5];
  const counter = new InboxCounter(
    async () => {
      const [next, ...rest] = answers;
      answers = rest;
      if (next == null) throw new Error('no');
      return new Map([
        ['chat', next - 1],
        ['digits', 1],
      ]);
    },
    () => settle(),
  );
  const seen: (number | null)[] = [];
  for (let n = 0; n < 3; n++) {
    counter.refresh();
    await settle();
    await settle();
    seen.push(counter.groups);
  }
  expect(seen).toEqual([3, 3, 5]);
});

test('the groups of all models are counted, without those of a model that does not answer', async () => {
  const card = (id: string) => ({ id }) as ModelCard;
  const apiOf = (id: string) => ({
    count: async () => {
      if (id === 'broken') throw new Error('no');
      return { groups: 2, items: 4, mine: 0 };
    },
  });
  const counts = await countInboxes([card('chat'), card('broken')], apiOf);
  expect([...counts]).toEqual([
    ['chat', 2],
    ['broken', 0],
  ]);
  await expect(countInboxes([card('broken')], apiOf)).rejects.toThrow();
});

test('an approval says what the bot will learn', () => {
  const say = (...items: InboxItem[]) => describeApproval(items);
  const other = item('b', { question: 'Is there a garden?' });
  const liked = item('d', { kind: 'thumb_down', correction: null });
  expect([say(item('a')), say(item('a'), other)]).toEqual([
    'Approve: the bot learns “Behind the house.” for this question.',
    'Approve: the bot learns “Behind the house.” for 2 questions.',
  ]);
  expect(say(item('a'), item('c', { correction: 'x'.repeat(99) }), liked)).toBe(
    'Approve: the bot learns 2 different replies for this question. It also learns that the given reply is wrong.',
  );
  expect(say(liked)).toBe('Approve: the bot learns that the given reply is wrong.');
  expect(say(item('a', { state: 'learned' }))).toContain('Nothing new is learned.');
});
