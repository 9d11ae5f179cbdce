import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import { mergeByScore, type InboxApi, type InboxQuery } from '../../src/lib/api/inbox';
import { nameCaller } from '../../src/lib/inbox/callers';
import { describeApproval, describeRejection, namesOf, suggestionsOf, wordsOf } from '../../src/lib/inbox/effect';
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
  queries: InboxQuery[] = [];
  error: Error | null = null;
  private count_ = 0;

  events = () => () => {};

  async inbox(query: InboxQuery) {
    this.queries.push(query);
    const { state, assignee, q = '' } = query;
    const open = state === 'open' && assignee === undefined ? this.all : [];
    const groups = open.filter((one) => titleOf(one).includes(q));
    return {
      groups,
      decisions: [],
      group_count: this.all.length,
      found_count: groups.length,
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

  async likelyReplies() {
    return [];
  }
}

async function openInbox(address: string | null = null) {
  const api = new FakeInboxApi();
  const replaced: (string | null)[] = [];
  let ids = 0;
  const inbox = new Inbox({
    api,
    pause: () => settle(),
    newId: () => `n${++ids}`,
    self: () => 'key:me',
    onReplace: (id) => void replaced.push(id),
  });
  if (address !== null) inbox.arrive(address);
  await inbox.load();
  return { api, inbox, replaced };
}

test('after a decision the group in its place is chosen, and the next one is told', async () => {
  const { api, inbox } = await openInbox();
  inbox.choose('b');
  expect(await inbox.decide('approve')).toBe(true);
  expect([inbox.chosen?.id, inbox.doneCount, inbox.groupCount]).toEqual(['c', 1, 2]);
  expect(inbox.news).toBe('2 left. Next: About c?');
  expect(inbox.notice?.text).toBe('Reply used: “About b?” (1 message)');
  await inbox.decide('reject', { reason: 'Spam' });
  await inbox.decide('merge', { reply: 'hours' });
  expect([inbox.chosen, inbox.news]).toEqual([null, 'Nothing left.']);
  expect(api.calls).toEqual(['approve b', 'reject c Spam', 'merge a a2 hours']);
});

test('what is left is told again once other groups have come', async () => {
  const { api, inbox } = await openInbox();
  await inbox.decide('approve');
  expect(inbox.news).toBe('2 left. Next: About b?');
  api.all = [group('e'), group('d'), ...api.all];
  await inbox.load();
  expect(inbox.news).toBe('4 left. Next: About b?');
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

test('the last decision can be taken back, also by its notice, which is replaced', async () => {
  const { api, inbox } = await openInbox();
  await inbox.decide('approve');
  await inbox.decide('approve');
  expect(await inbox.notice!.undo!()).toBe(true);
  expect(inbox.notice).toEqual({ text: 'Taken back. It is in the inbox again.' });
  expect(await inbox.undo()).toBe(true);
  expect(await inbox.undo()).toBe(false);
  expect(api.calls).toEqual(['approve a a2', 'approve b', 'undo d2', 'undo d1']);
  expect([inbox.doneCount, inbox.notice?.text]).toEqual([0, 'There is nothing to undo.']);
});

test('what was taken back is chosen again', async () => {
  const { api, inbox } = await openInbox();
  const before = api.all;
  inbox.choose('b');
  await inbox.decide('reject');
  expect(inbox.chosen?.id).toBe('c');
  api.all = before.map((one) => (one.id === 'b' ? { ...one, id: 'b-again' } : one));
  await inbox.undo();
  expect(inbox.chosen?.id).toBe('b-again');
});

test('of several suggestions one is chosen and taught for all', async () => {
  const { api, inbox } = await openInbox();
  const other = item('a3', { correction: 'On the roof.', reply: 'roof' });
  api.all = [{ ...api.all[0]!, items: [...api.all[0]!.items, other] }, group('b')];
  await inbox.load();
  expect(inbox.suggestions.map(({ text, count }) => [text, count])).toEqual([
    ['Behind the house.', 2],
    ['On the roof.', 1],
  ]);
  expect([await inbox.approve(), api.calls]).toEqual([false, []]);
  inbox.suggest(inbox.suggestions[0]!.key);
  expect(describeApproval(inbox.selected, inbox.suggestion)).toEqual([
    'The bot learns “Behind the house.” for this question.',
    '1 other correction is not learned.',
  ]);
  inbox.suggest(inbox.suggestions[1]!.key);
  await inbox.approve();
  inbox.suggest('behind the house.');
  await inbox.approve();
  expect(api.calls).toEqual(['merge a a2 a3 roof', 'approve b']);
});

test('a chosen text that is no reply yet is taught as one', async () => {
  const { api, inbox } = await openInbox();
  api.all = [{ ...group('a'), items: [item('a'), item('a2', { correction: 'On the roof.' })] }];
  await inbox.load();
  inbox.suggest(inbox.suggestions[1]!.key);
  await inbox.approve();
  expect(api.calls).toEqual(['reply a a2 On the roof.']);
});

test('a search and a filter are asked of the service, and taken back at once', async () => {
  const { api, inbox } = await openInbox();
  await inbox.search('c?');
  expect([inbox.groups?.map(({ id }) => id), inbox.foundCount, inbox.groupCount]).toEqual([['c'], 1, 3]);
  await inbox.setOnly('thumb_down');
  expect(api.queries.at(-1)).toEqual({
    state: 'open',
    sort: 'newest',
    q: 'c?',
    only: 'thumb_down',
  });
  expect(inbox.isFiltered).toBe(true);
  await inbox.unfilter();
  expect([api.queries.at(-1), inbox.isFiltered]).toEqual([{ state: 'open', sort: 'newest' }, false]);
});

test('a curator who comes second is told who decided what', async () => {
  const { api, inbox } = await openInbox();
  api.error = new ApiError('no', 409, null, { by: 'key:olga', action: 'reject' });
  expect(await inbox.decide('approve')).toBe(false);
  expect(inbox.notice).toEqual({
    text: 'Nothing changed: olga has rejected this already.',
    tone: 'problem',
  });
  api.error = new ApiError('no', 404);
  await inbox.decide('approve');
  expect([inbox.notice?.text, inbox.busy]).toEqual(['It was withdrawn meanwhile.', false]);
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
  const { inbox, replaced } = await openInbox('c');
  expect([inbox.chosen?.id, inbox.notice, replaced]).toEqual(['c', null, []]);
  inbox.arrive('b');
  expect(inbox.chosen?.id).toBe('b');
  inbox.arrive(null);
  expect(inbox.chosen?.id).toBe('a');
  inbox.arrive('gone');
  expect([inbox.chosen?.id, replaced]).toEqual(['a', [null]]);
  const late = await openInbox('gone');
  expect([late.inbox.chosen?.id, late.inbox.notice?.text, late.replaced]).toEqual([
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
  const { api, inbox } = await openInbox();
  api.all = [{ ...group('s'), label: 'star', questions: [], items: [item('s', star)] }, group('b')];
  await inbox.load();
  expect(titleOf(api.all[0]!)).toBe('star');
  expect(describeApproval([item('s', star), item('t', star)])).toEqual(['The bot learns 2 examples of “star”.']);
  inbox.choose('s');
  await inbox.decide('approve');
  expect(inbox.notice?.text).toBe('Approved: “star” (1 example)');
  const instances = [drawing, drawing.slice(1), 'star', null, [...drawing.slice(1), null]];
  expect(instances.map((instance) => drawingOf({ instance }) !== null)).toEqual([true, false, false, false, false]);
  const answered = { id: '7', text: '7' };
  const thumb = { ...star, kind: 'thumb_down', label: null, answered } as const;
  expect(titleOf({ ...group('t'), questions: [], items: [item('t', thumb)] })).toBe('“7” was wrong');
});

test('an addition is named by its first reply', () => {
  const added = { replies: ['We lend games.'], reply_count: 2, example_count: 1 };
  const decision = { id: 'd', by: 'key:tina', at: AT, reason: null, reply: null, items: [] };
  expect(titleOfDecision({ ...decision, action: 'add', questions: ['Q?'], added })).toBe('We lend games.');
  expect(titleOfDecision({ ...decision, action: 'dismiss', questions: ['Q?'], added: null })).toBe('Q?');
  expect([t.inbox.added(2, 1), t.inbox.added(0, 2)]).toEqual([
    '2 new replies, 1 example question',
    '2 example questions',
  ]);
});

test('a key with a modifier is not a decision, and a key held down counts once', () => {
  const press = (key: string, more = {}) =>
    keyActionFor({ key, ctrlKey: false, metaKey: false, altKey: false, repeat: false, ...more });
  expect([press('A'), press('x'), press('q'), press('?')]).toEqual(['approve', 'reject', null, 'help']);
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

test('a decision is named by what it is about, and says what it does', () => {
  const say = (...items: InboxItem[]) => describeApproval(items);
  const other = item('b', { question: 'Is there a garden?' });
  const thumb = item('d', { kind: 'thumb_down', correction: null });
  const known = item('e', { kind: 'thumb_down', correction: null, state: 'learned' });
  const kept = item('f', { state: 'learned' });
  const isRight = item('g', { kind: 'thumb_up', correction: null });
  expect([say(item('a')), say(item('a'), other)]).toEqual([
    ['The bot learns “Behind the house.” for this question.'],
    ['The bot learns “Behind the house.” for 2 questions.'],
  ]);
  expect(say(item('a'), item('c', { correction: 'x'.repeat(99) }))).toEqual([
    'Choose one of the 2 suggestions above. It is taught for all selected questions.',
  ]);
  expect([say(thumb), say(known), say(kept)]).toEqual([
    ['The bot learns that this reply is wrong for this question.'],
    ['The bot goes on avoiding this reply for this question, as it has learned.'],
    ['The bot has learned “Behind the house.” already, and keeps it.'],
  ]);
  expect([[thumb], [known], [thumb, known], [item('a')], [kept]].map(describeRejection)).toEqual([
    'The thumb down is not learned.',
    'The thumb down is un-learned.',
    '1 thumb down is not learned. 1 thumb down is un-learned.',
    'Nothing of it is learned.',
    'What was learned from it is un-learned.',
  ]);
  const given = (id: string) => ({ answered: { id, text: id } });
  expect(
    [[thumb], [{ ...thumb, ...given('x') }, known], [item('a')], [kept], [isRight], []].map((items) =>
      Object.values(namesOf(items)),
    ),
  ).toEqual([
    ['Agree: it was wrong', 'No, the reply was right'],
    ['Agree: they were wrong', 'No, the replies were right'],
    ['Use this reply', 'Reject'],
    ['Keep this reply', 'Reject'],
    ['Agree: it was right', 'Reject'],
    ['Approve', 'Reject'],
  ]);
});

test('of a mixed group, each kind has a sentence about what becomes of it', () => {
  const thumb = item('d', { kind: 'thumb_down', correction: null });
  const known = item('e', { kind: 'thumb_down', correction: null, state: 'learned' });
  const correction = item('b', { kind: 'correction', question: 'Is there a garden?' });
  const mixed = [item('a'), correction, thumb, known];
  expect(describeApproval(mixed)).toEqual([
    '2 corrections are learned: “Behind the house.” for 2 questions.',
    '1 thumb down is learned: the given reply is wrong.',
    '1 thumb down was learned already and stays.',
  ]);
  expect(describeRejection(mixed)).toBe(
    '2 corrections are not learned. 1 thumb down is not learned. 1 thumb down is un-learned.',
  );
  const other = item('f', { correction: 'In the yard.', state: 'learned' });
  const [chosen] = suggestionsOf(mixed);
  expect(describeApproval([item('a'), correction, thumb, other], chosen)).toEqual([
    'The bot learns “Behind the house.” for 2 questions.',
    '1 other correction is un-learned.',
    '1 thumb down is learned: the given reply is wrong.',
  ]);
});

test('the likely replies are those with the best score for any wording or suggestion of a group', () => {
  const scored = (scores: Record<string, number>) =>
    Object.entries(scores).map(([id, score]) => ({ id, text: id, score }));
  const merged = mergeByScore([
    scored({ wrong: 0.7, right: 0.1, far: 0.01 }),
    scored({ right: 0.9, near: 0.2, far: 0.01 }),
  ]);
  expect(merged.map(({ id, score }) => [id, score])).toEqual([
    ['right', 0.9],
    ['wrong', 0.7],
    ['near', 0.2],
    ['far', 0.01],
  ]);
  const asked = {
    ...group('a', 'b'),
    questions: [
      { text: 'A?', count: 2 },
      { text: 'B?', count: 1 },
    ],
  };
  expect(wordsOf(asked)).toEqual(['A?', 'B?', 'Behind the house.']);
});

test('all that one person has said is rejected in all groups at once, and taken back at once', async () => {
  const { api, inbox } = await openInbox();
  const by = (who: string) => ({ caller: `visitor:${who}` });
  api.all = [
    { ...group('a'), items: [item('a', by('spam')), item('a2', by('other'))] },
    { ...group('b'), items: [item('b', by('spam'))] },
    { ...group('c'), items: [item('c', by('other'))] },
  ];
  await inbox.load();
  const [spam] = inbox.groups![1]!.items;
  expect(inbox.itemsOf(spam!).map(({ id }) => id)).toEqual(['a', 'b']);
  expect(await inbox.rejectAllOf(spam!)).toBe(true);
  expect(api.calls).toEqual(['reject a b']);
  expect([inbox.groups!.map(({ id }) => id), inbox.doneCount]).toEqual([['a2', 'c'], 1]);
  expect(inbox.notice?.text).toBe('Rejected: 2 messages of Visitor spam');
  expect(await inbox.notice!.undo!()).toBe(true);
  expect([api.calls.at(-1), inbox.doneCount]).toEqual(['undo d1', 0]);
});
