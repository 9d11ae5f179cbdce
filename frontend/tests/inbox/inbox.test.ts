import { expect, test } from 'vitest';
import { ApiError, type InboxApi, type InboxQuery } from '../../src/lib/api';
import { nameCaller } from '../../src/lib/inbox/callers';
import { describeApproval } from '../../src/lib/inbox/effect';
import { Inbox } from '../../src/lib/inbox/inbox.svelte';
import { InboxCounter } from '../../src/lib/inbox/inbox_count.svelte';
import { keyActionFor, keyOf } from '../../src/lib/inbox/keys';
import type { DecideRequest, InboxGroup, InboxItem } from '../../src/lib/schema';
import { settle } from '../fake';

const AT = '2026-11-21T09:00:00Z';

const item = (id: string, more: Partial<InboxItem> = {}): InboxItem => ({
  id,
  kind: 'new_reply',
  state: 'held',
  hold: 'review',
  question: 'Do you have a garden?',
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
    this.all = this.all.filter(({ items }) => !items.every(({ id }) => ids.includes(id)));
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

async function openInbox() {
  const api = new FakeInboxApi();
  const told: { text: string; undo?: () => unknown }[] = [];
  let ids = 0;
  const inbox = new Inbox({
    api,
    pause: () => settle(),
    newId: () => `n${++ids}`,
    self: () => 'key:me',
    tell: (text, options) => void told.push({ text, ...options }),
  });
  await inbox.load();
  return { api, inbox, told };
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
  expect([inbox.chosen?.id, inbox.doneCount]).toEqual(['a', 0]);
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
  expect([inbox.step(-1), inbox.step(1), inbox.step(1), inbox.step(1)]).toEqual([
    false,
    true,
    true,
    false,
  ]);
  expect(inbox.chosen?.id).toBe('c');
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
      return { groups: next, items: next, mine: 0 };
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
