import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import type { FileFormat, ImportFormat, RepertoireApi, ReplyQuery } from '../../src/lib/api/repertoire';
import { describeProblem, effectOf, formatOf } from '../../src/lib/repertoire/reply_import.svelte';
import { Repertoire } from '../../src/lib/repertoire/repertoire.svelte';
import { containsWords } from '../../src/lib/repertoire/reply_list.svelte';
import type { EditReply, ImportAnswer, NewReply, OpenCluster, ReplySummary } from '../../src/lib/schema';
import { FakeApi, settle } from '../fake';

const AT = '2026-11-21T09:00:00+00:00';

const listed = (id: string, text: string, more: Partial<ReplySummary> = {}): ReplySummary => ({
  ...{ id, text, active: true, offset: 1, examples: 0, rated: 0, right: 0, created_at: AT },
  ...more,
});

class FakeRepertoireApi extends FakeApi implements RepertoireApi {
  all = [
    listed('hours', 'We open at nine.', { rated: 4, right: 3 }),
    listed('print', 'The printer is by the stairs.', { rated: 2 }),
    listed('wifi', 'The network is called Guest.', { rated: 3 }),
    listed('skis', 'Skis are in the attic.', { active: false }),
  ];
  /** The example questions of each reply, by its id. */
  questions: Record<string, string[]> = { hours: ['When do you open?'] };
  clusters: OpenCluster[] = [];
  plan: ImportAnswer = {
    lines: [],
    sheet: null,
    other_sheets: [],
    bad: 0,
    shared: 0,
    offset: null,
  };
  private last = 34;

  async replies({ q = '', limit }: ReplyQuery) {
    this.calls.push(`replies "${q}"`);
    if (this.broken !== null) throw new ApiError(this.broken, 507);
    const found = this.all.filter(({ text }) => containsWords(text, q));
    return {
      replies: found.slice(0, limit),
      next: null,
      found: found.length,
      counts: { all: this.all.length, given: 0, retired: 0, never_right: 0 },
    };
  }

  async replyDetails(id: string) {
    const reply = this.all.find((one) => one.id === id);
    if (!reply) throw new ApiError(`no reply ${id}`, 404);
    const examples = (this.questions[id] ?? []).map((text, offset) => ({
      text,
      offset,
      created_at: AT,
    }));
    return { ...reply, examples, taught: [] };
  }

  async addReply({ text, examples }: NewReply) {
    const offset = this.accept(`add ${text} for ${examples?.join() ?? ''}`);
    const reply = listed('new', text, { offset });
    this.all = [...this.all, reply];
    return reply;
  }

  async editReply(id: string, { text, examples, active }: EditReply) {
    const offset = this.accept(`edit ${id}: ${JSON.stringify({ text, examples, active })}`);
    const before = this.all.find((one) => one.id === id)!;
    const reply = { ...before, offset, text: text ?? before.text, active: active ?? before.active };
    this.all = this.all.map((one) => (one.id === id ? reply : one));
    return reply;
  }

  async forgetExample(id: string, offset: number) {
    return { id, offset: this.accept(`forget ${id} ${offset}`), status: 'retracted' as const };
  }

  async unanswered() {
    return this.clusters;
  }

  async dismiss(predictions: string[]) {
    this.calls.push(`dismiss ${predictions.join()}`);
    return {
      decision: 'd1',
      action: 'dismiss',
      closed: predictions.length,
      offset: null,
      skipped: [],
    };
  }

  async undoDismissal(decision: string) {
    this.calls.push(`undo ${decision}`);
  }

  async importReplies(_: Blob, format: ImportFormat, how: { dry_run: boolean; skip_bad: boolean }) {
    const offset = how.dry_run ? null : this.accept(`import ${format}, skip bad: ${how.skip_bad}`);
    if (this.broken !== null) throw new ApiError(this.broken, 507);
    return { ...this.plan, offset };
  }

  exportOf = (format: FileFormat) => `/export?format=${format}`;

  /** Accept a change, which the next version learns. Return its offset. */
  private accept(call: string): number {
    this.calls.push(call);
    if (this.broken !== null) throw new ApiError(this.broken, 507);
    return ++this.last;
  }

  /** Publish a version that has learned every accepted change. */
  learnAll() {
    this.publish();
    this.learned_until = this.last;
    this.connect();
  }
}

async function openRepertoire(arrange: (api: FakeRepertoireApi) => void = () => {}, mayCurate = true) {
  const api = new FakeRepertoireApi();
  arrange(api);
  let ids = 0;
  const repertoire = new Repertoire({
    api,
    newId: () => `f${++ids}`,
    pause: () => settle(),
    mayCurate,
  });
  repertoire.start();
  api.connect();
  await settle();
  return { api, repertoire };
}

test('a new reply is followed until a version has learned it, without polling', async () => {
  const { api, repertoire } = await openRepertoire();
  [repertoire.newText, repertoire.newQuestions] = [' Pens are here. ', 'Pens?\n\n A pen? '];
  await repertoire.add();
  expect(api.calls).toContain('add Pens are here. for Pens?,A pen?');
  expect([repertoire.addition?.steps, repertoire.newText, repertoire.added?.id]).toEqual([['added'], '', 'new']);
  const before = api.calls.length;
  await settle();
  expect(api.calls.slice(before).filter((call) => call === 'outcome')).toEqual([]);
  api.learnAll();
  await settle();
  expect(repertoire.addition?.steps).toEqual(['added', 'learned in version 43']);
});

test('a reply that could not be added keeps its text', async () => {
  const { api, repertoire } = await openRepertoire();
  repertoire.newText = 'Pens are here.';
  api.broken = 'the log is full';
  await repertoire.add();
  expect([repertoire.newText, repertoire.addition?.steps]).toEqual(['Pens are here.', ['not saved: the log is full']]);
});

test('a reply is edited, given a question, retired and restored', async () => {
  const { api, repertoire } = await openRepertoire();
  await repertoire.open('hours');
  const reply = repertoire.current!;
  expect(reply.details?.examples.map(({ text }) => text)).toEqual(['When do you open?']);
  reply.edit();
  reply.draft = 'We open at ten.';
  await reply.save();
  expect([reply.draft, reply.details?.text, reply.change?.steps]).toEqual([null, 'We open at ten.', ['saved']]);
  api.learnAll();
  await settle();
  expect(reply.change?.steps).toEqual(['saved', 'learned in version 43']);

  reply.questionDraft = ' Open? ';
  await reply.addQuestion();
  await reply.forgetQuestion(0);
  await reply.retire();
  expect(reply.details?.active).toBe(false);
  await reply.restore();
  expect(api.calls.filter((call) => /^(edit|forget)/.test(call))).toEqual([
    'edit hours: {"text":"We open at ten."}',
    'edit hours: {"examples":["Open?"]}',
    'forget hours 0',
    'edit hours: {"active":false}',
    'edit hours: {"active":true}',
  ]);
});

test('a text that could not be saved stays in its box, and an unchanged one is not sent', async () => {
  const { api, repertoire } = await openRepertoire();
  await repertoire.open('hours');
  const reply = repertoire.current!;
  reply.edit();
  await reply.save();
  expect([reply.draft, reply.change]).toEqual([null, null]);
  reply.edit();
  reply.draft = 'The printer is by the stairs.';
  api.broken = 'another reply says that already';
  await reply.save();
  expect([reply.draft, reply.change?.failed]).toEqual([
    'The printer is by the stairs.',
    'another reply says that already',
  ]);
});

test('a missing reply is reported as missing', async () => {
  const { repertoire } = await openRepertoire();
  await repertoire.open('unknown');
  expect([repertoire.current?.missing, repertoire.current?.problem]).toEqual([true, null]);
});

const cluster = (...texts: string[]): OpenCluster => ({
  asked: texts.length,
  inbox_group: null,
  suggestions: 0,
  questions: texts.map((text) => ({
    text,
    predictions: [`p-${text}`, `q-${text}`],
    asked_at: '2026-11-21T09:00:00Z',
  })),
});

test('a cluster says which group of the inbox suggests a reply, until it is decided', async () => {
  const { api, repertoire } = await openRepertoire(
    (api) => (api.clusters = [{ ...cluster('a'), inbox_group: 'g', suggestions: 2 }]),
  );
  const { unanswered } = repertoire;
  expect(unanswered.shown![0]!.waiting).toEqual({ group: 'g', suggestions: 2 });
  api.clusters = [cluster('a')];
  await unanswered.load();
  expect(unanswered.shown![0]!.waiting).toBeNull();
});

test('one click teaches every question of a cluster, and another undoes it', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('a', 'b'), cluster('c')]));
  const { unanswered } = repertoire;
  expect(unanswered.openCount).toBe(2);
  const shown = unanswered.shown![0]!;
  await shown.toggle();
  expect(shown.suggested.map(({ text }) => text)).toEqual(['at nine', 'at ten', 'at eleven']);
  shown.draft = ' Yes. ';
  await shown.teach();
  expect(api.sentFeedback).toEqual([
    { id: 'f1', prediction_id: 'p-a', correction: 'Yes.' },
    { id: 'f2', prediction_id: 'p-b', correction: 'Yes.' },
  ]);
  expect([shown.taught, shown.open, shown.change?.steps, unanswered.openCount]).toEqual([
    'Yes.',
    false,
    ['taught to 2 questions'],
    1,
  ]);

  api.clusters = [cluster('c')];
  api.publish();
  await settle();
  expect(shown.change?.steps).toEqual(['taught to 2 questions', 'learned in version 43']);
  await shown.undo();
  expect(api.calls.slice(-2)).toEqual(['retract f1', 'retract f2']);
  expect([shown.taught, shown.change?.steps]).toEqual([null, ['taken back']]);
});

test('a refresh keeps the place of a cluster that is being edited and adds new questions', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('a'), cluster('c')]));
  const { unanswered } = repertoire;
  const [, second] = unanswered.shown!;
  second!.draft = 'half a';
  api.clusters = [cluster('d'), cluster('c', 'e'), cluster('a')];
  await unanswered.load();
  expect(unanswered.shown!.map(({ questions }) => questions.map(({ text }) => text))).toEqual([
    ['c', 'e'],
    ['d'],
    ['a'],
  ]);
  expect(unanswered.shown![0]).toBe(second);
});

test('a correction that could not be sent keeps its text and its box', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('a')]));
  const shown = repertoire.unanswered.shown![0]!;
  await shown.toggle();
  shown.draft = 'Yes.';
  api.broken = 'the log is full';
  await shown.teach();
  expect([shown.draft, shown.open, shown.taught, shown.change?.steps]).toEqual([
    'Yes.',
    true,
    null,
    ['not saved: the log is full'],
  ]);
});

const line = {
  id: 'x',
  text: 'Yes.',
  examples: 0,
  was: null,
  shared: [],
  error: null,
  problem: null,
};
const problem = { code: 'no_text', field: 'text', entry: null, about: null } as const;
const PLAN: ImportAnswer = {
  lines: [
    { ...line, line: 1, does: ['new'] },
    { ...line, line: 2, does: [] },
    { ...line, line: 3, does: [], error: 'a reply needs a text', problem },
    { ...line, line: 4, does: ['reworded', 'examples'], was: 'No.', examples: 2 },
  ],
  sheet: null,
  other_sheets: [],
  shared: 0,
  bad: 1,
  offset: null,
};

test.each([
  ['Replies.XLSX', 'xlsx'],
  ['replies.xls', 'xlsx'],
  ['replies.tsv', 'csv'],
  ['replies.txt', 'jsonl'],
])('the name of a file says its format: %s', (name, format) => {
  expect(formatOf(name)).toBe(format);
});

test('a file is only previewed until it is imported, and invalid lines must be skipped explicitly', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.plan = PLAN));
  const { replyImport } = repertoire;
  await replyImport.choose(new File(['...'], 'Replies.CSV'));
  expect(PLAN.lines.map(effectOf)).toEqual(['new', 'unchanged', 'invalid', 'changed']);
  expect(replyImport.counts).toEqual({ new: 1, changed: 1, unchanged: 1, invalid: 1 });
  expect(replyImport.listedLines.map(({ line }) => line)).toEqual([3, 1, 4]);
  await replyImport.apply();
  expect(api.calls.filter((call) => call.startsWith('import'))).toEqual([]);

  replyImport.skipBad = true;
  await replyImport.apply();
  expect(api.calls).toContain('import csv, skip bad: true');
  expect([replyImport.file, replyImport.change?.steps]).toEqual([null, ['imported from Replies.CSV']]);
  api.learnAll();
  await settle();
  expect(replyImport.change?.steps.at(-1)).toBe('learned in version 43');
});

test('what is wrong with a line of a file is said in plain words, with its number', () => {
  expect(describeProblem(3, { ...problem, code: 'not_text' })).toBe(
    'Line 3: “text” has to be text in quotation marks.',
  );
  expect(describeProblem(4, { ...problem, code: 'not_json', field: null })).toBe('Line 4 is not JSON.');
  expect(describeProblem(5, { code: 'too_long', field: 'examples', entry: 2, about: '100' })).toBe(
    'Line 5: Entry 2 of “examples” is too long. At most 100 characters are possible.',
  );
});

test('an unreadable file gives the reason', async () => {
  const { api, repertoire } = await openRepertoire();
  api.broken = 'the file is not UTF-8';
  await repertoire.replyImport.choose(new File(['...'], 'a.jsonl'));
  expect([repertoire.replyImport.problem, repertoire.replyImport.plan]).toEqual(['the file is not UTF-8', null]);
});

test('unanswered questions are refreshed while they are shown', async () => {
  const { api, repertoire } = await openRepertoire();
  expect(repertoire.unanswered.openCount).toBe(0);
  api.clusters = [cluster('a')];
  api.publish();
  await settle();
  await settle();
  expect(repertoire.unanswered.openCount).toBe(0);
  repertoire.followUnanswered(true);
  await settle();
  expect(repertoire.unanswered.openCount).toBe(1);
  api.clusters = [];
  api.publish();
  await settle();
  await settle();
  expect(repertoire.unanswered.openCount).toBe(0);
});

test('a caller that is no curator does not ask for unanswered questions', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('spam')]), false);
  repertoire.followUnanswered(true);
  api.publish();
  await settle();
  expect(repertoire.unanswered.shown).toBe(null);
});

test('a draft finds replies with its words, and only the last one is searched for', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('a')]));
  const [shown] = repertoire.unanswered.shown!;
  await Promise.all([shown!.write('the'), shown!.write('the print')]);
  expect(shown!.found.map(({ id }) => id)).toEqual(['print']);
  expect(api.calls).not.toContain('replies "the"');
  await shown!.write(' ');
  expect([shown!.draft, shown!.found]).toEqual([' ', []]);
});

test('a dismissed cluster is gone until that is taken back', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('spam')]));
  const [shown] = repertoire.unanswered.shown!;
  api.clusters = [];
  const undo = await repertoire.unanswered.dismiss(shown!);
  expect([repertoire.unanswered.shown, api.calls]).toEqual([[], expect.arrayContaining(['dismiss p-spam'])]);
  api.clusters = [cluster('spam')];
  await undo!();
  expect(repertoire.unanswered.shown).toHaveLength(1);
  expect(api.calls).toContain('undo d1');
});
