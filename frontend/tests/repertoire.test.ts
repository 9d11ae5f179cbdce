import { expect, test } from 'vitest';
import { ApiError, type FileFormat, type RepertoireApi } from '../src/lib/api';
import { kindOf } from '../src/lib/importing.svelte';
import { AT_ONCE, hasWords, Repertoire } from '../src/lib/repertoire.svelte';
import type { EditReply, ImportAnswer, NewReply, OpenCluster, ReplyListed } from '../src/lib/schema';
import { FakeApi, settle } from './fake';

const listed = (id: string, text: string, more: Partial<ReplyListed> = {}): ReplyListed => ({
  ...{ id, text, active: true, offset: 1, examples: 0, rated: 0, right: 0 },
  ...more,
});

class FakeRepertoireApi extends FakeApi implements RepertoireApi {
  all = [
    listed('hours', 'We open at nine.', { rated: 4, right: 3 }),
    listed('print', 'The printer is by the stairs.', { rated: 2 }),
    listed('wifi', 'The network is called Guest.', { rated: 3 }),
    listed('skis', 'Skis are in the attic.', { active: false }),
  ];
  /** Of each reply. */
  questions: Record<string, string[]> = { hours: ['When do you open?'] };
  clusters: OpenCluster[] = [];
  plan: ImportAnswer = { lines: [], bad: 0, offset: null };
  private last = 34;

  async replies(words: string) {
    this.calls.push(`replies "${words}"`);
    if (this.broken !== null) throw new Error(this.broken);
    return this.all.filter(({ id, text }) => [text, ...(this.questions[id] ?? [])].some((said) => hasWords(said, words)));
  }

  async replyDetails(id: string) {
    const reply = this.all.find((one) => one.id === id);
    if (!reply) throw new ApiError(`no reply ${id}`, 404);
    const examples = (this.questions[id] ?? []).map((text, offset) => ({ text, offset }));
    return { ...reply, examples, taught: [] };
  }

  async addReply({ text, examples }: NewReply) {
    const offset = this.accept(`add ${text} for ${examples}`);
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

  async importReplies(_: Blob, format: FileFormat, how: { dry_run: boolean; skip_bad: boolean }) {
    const offset = how.dry_run ? null : this.accept(`import ${format}, skip bad: ${how.skip_bad}`);
    if (this.broken !== null) throw new Error(this.broken);
    return { ...this.plan, offset };
  }

  exportOf = (format: FileFormat) => `/export?format=${format}`;

  /** Something that is learned with the next version. */
  private accept(call: string): number {
    this.calls.push(call);
    if (this.broken !== null) throw new Error(this.broken);
    return ++this.last;
  }

  /** A version that has learned all that was accepted. */
  learnAll() {
    this.publish();
    this.learned_until = this.last;
    this.connect();
  }
}

async function openRepertoire(arrange: (api: FakeRepertoireApi) => void = () => {}) {
  const api = new FakeRepertoireApi();
  arrange(api);
  let ids = 0;
  const repertoire = new Repertoire({ api, user: 'ada', newId: () => `f${++ids}`, pause: () => settle() });
  repertoire.start();
  api.connect();
  await settle();
  return { api, repertoire };
}

const shownIds = ({ shown }: Repertoire) => shown.map(({ id }) => id);

test('words find replies at once, and those whose questions have them when the service has answered', async () => {
  const { repertoire } = await openRepertoire();
  const searched = repertoire.search('OPEN');
  expect(shownIds(repertoire)).toEqual(['hours']);
  await searched;
  await repertoire.search('when open');
  expect(shownIds(repertoire)).toEqual(['hours']);
  await repertoire.search('stairs attic');
  expect(shownIds(repertoire)).toEqual([]);
});

test('while somebody types, only the last words are asked for', async () => {
  const { api, repertoire } = await openRepertoire();
  await Promise.all([repertoire.search('p'), repertoire.search('pr'), repertoire.search('pri')]);
  expect(api.calls.filter((call) => /^replies "p/.test(call))).toEqual(['replies "pri"']);
});

test('what was rated and never right is counted and told, the most rated first', async () => {
  const { repertoire } = await openRepertoire();
  expect(repertoire.counts).toEqual({ all: 4, given: 3, retired: 1, 'never right': 2 });
  repertoire.only('never right');
  expect(shownIds(repertoire)).toEqual(['wifi', 'print']);
  repertoire.only('retired');
  expect(shownIds(repertoire)).toEqual(['skis']);
});

test('of many replies so many are shown at a time', async () => {
  const many = Array.from({ length: 3 * AT_ONCE }, (_, n) => listed(`r${n}`, `Reply ${n}.`));
  const { repertoire } = await openRepertoire((api) => (api.all = many));
  expect([repertoire.found.length, repertoire.shown.length]).toEqual([3 * AT_ONCE, AT_ONCE]);
  repertoire.more();
  expect(repertoire.shown.length).toBe(2 * AT_ONCE);
  await repertoire.search('reply 14');
  expect(repertoire.shown.length).toBe(12); // 14, 114, and 140 to 149
});

test('a new reply is told until a version has learned it, without asking in between', async () => {
  const { api, repertoire } = await openRepertoire();
  [repertoire.newText, repertoire.newQuestions] = [' Pens are here. ', 'Pens?\n\n A pen? '];
  await repertoire.add();
  expect(api.calls).toContain('add Pens are here. for Pens?,A pen?');
  expect([repertoire.adding?.steps, repertoire.newText, repertoire.added?.id]).toEqual([['added'], '', 'new']);
  const asked = api.calls.length;
  await settle();
  expect(api.calls.slice(asked).filter((call) => call === 'fate')).toEqual([]);
  api.learnAll();
  await settle();
  expect(repertoire.adding?.steps).toEqual(['added', 'learned in version 43']);
});

test('what could not be added keeps its words', async () => {
  const { api, repertoire } = await openRepertoire();
  repertoire.newText = 'Pens are here.';
  api.broken = 'the log is full';
  await repertoire.add();
  expect([repertoire.newText, repertoire.adding?.steps]).toEqual(['Pens are here.', ['not saved: the log is full']]);
});

test('a reply is edited, given a question, retired, and comes back', async () => {
  const { api, repertoire } = await openRepertoire();
  await repertoire.open('hours');
  const one = repertoire.one!;
  expect(one.details?.examples.map(({ text }) => text)).toEqual(['When do you open?']);
  one.edit();
  one.draft = 'We open at ten.';
  await one.save();
  expect([one.draft, one.details?.text, one.change?.steps]).toEqual([null, 'We open at ten.', ['saved']]);
  api.learnAll();
  await settle();
  expect(one.change?.steps).toEqual(['saved', 'learned in version 43']);

  one.questionDraft = ' Open? ';
  await one.addQuestion();
  await one.forgetQuestion(0);
  await one.retire();
  expect(one.details?.active).toBe(false);
  await one.restore();
  expect(api.calls.filter((call) => /^(edit|forget)/.test(call))).toEqual([
    'edit hours: {"text":"We open at ten."}',
    'edit hours: {"examples":["Open?"]}',
    'forget hours 0',
    'edit hours: {"active":false}',
    'edit hours: {"active":true}',
  ]);
});

test('a wording that could not be saved stays in its box, and one that is as it was is not sent', async () => {
  const { api, repertoire } = await openRepertoire();
  await repertoire.open('hours');
  const one = repertoire.one!;
  one.edit();
  await one.save();
  expect([one.draft, one.change]).toEqual([null, null]);
  one.edit();
  one.draft = 'The printer is by the stairs.';
  api.broken = 'another reply says that already';
  await one.save();
  expect([one.draft, one.change?.failed]).toEqual(['The printer is by the stairs.', 'another reply says that already']);
});

test('a reply that is not there is missed, not awaited', async () => {
  const { repertoire } = await openRepertoire();
  await repertoire.open('nobody');
  expect([repertoire.one?.missing, repertoire.one?.problem]).toEqual([true, null]);
});

const cluster = (...texts: string[]): OpenCluster => ({
  asked: texts.length,
  questions: texts.map((text) => ({ text, predictions: [`p-${text}`, `q-${text}`], asked_at: '2026-11-21T09:00:00Z' })),
});

test('one press teaches every question of a cluster once, and another takes all of that back', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('a', 'b'), cluster('c')]));
  const { gaps } = repertoire;
  expect(gaps.openCount).toBe(2);
  const gap = gaps.shown![0]!;
  await gap.toggle();
  expect(gap.suggested.map(({ text }) => text)).toEqual(['at nine', 'at ten', 'at eleven']);
  gap.draft = ' Yes. ';
  await gap.teach();
  expect(api.given).toEqual([
    { id: 'f1', prediction_id: 'p-a', user: 'ada', correction: 'Yes.' },
    { id: 'f2', prediction_id: 'p-b', user: 'ada', correction: 'Yes.' },
  ]);
  expect([gap.taught, gap.open, gap.change?.steps, gaps.openCount]).toEqual(['Yes.', false, ['taught to 2 questions'], 1]);

  api.clusters = [cluster('c')];
  api.publish();
  await settle();
  expect(gap.change?.steps).toEqual(['taught to 2 questions', 'learned in version 43']);
  await gap.undo();
  expect(api.calls.slice(-2)).toEqual(['retract f1', 'retract f2']);
  expect([gap.taught, gap.change?.steps]).toEqual([null, ['taken back']]);
});

test('news leave a cluster that somebody is at work on where it is, with what is new of it', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('a'), cluster('c')]));
  const { gaps } = repertoire;
  const [, second] = gaps.shown!;
  second!.draft = 'half a';
  api.clusters = [cluster('d'), cluster('c', 'e'), cluster('a')];
  await gaps.load();
  expect(gaps.shown!.map(({ questions }) => questions.map(({ text }) => text))).toEqual([['c', 'e'], ['d'], ['a']]);
  expect(gaps.shown![0]).toBe(second);
});

test('a teaching that could not be sent keeps its words and its box', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.clusters = [cluster('a')]));
  const gap = repertoire.gaps.shown![0]!;
  await gap.toggle();
  gap.draft = 'Yes.';
  api.broken = 'the log is full';
  await gap.teach();
  expect([gap.draft, gap.open, gap.taught, gap.change?.steps]).toEqual(['Yes.', true, null, ['not saved: the log is full']]);
});

const line = { id: 'x', text: 'Yes.', examples: 0, was: null, error: null };
const PLAN: ImportAnswer = {
  lines: [
    { ...line, line: 1, does: ['new'] },
    { ...line, line: 2, does: [] },
    { ...line, line: 3, does: [], error: 'a reply needs a text' },
    { ...line, line: 4, does: ['reworded', 'examples'], was: 'No.', examples: 2 },
  ],
  bad: 1,
  offset: null,
};

test('a file is only looked at until somebody says so, and bad lines must be left out on purpose', async () => {
  const { api, repertoire } = await openRepertoire((api) => (api.plan = PLAN));
  const { importing } = repertoire;
  await importing.choose(new File(['...'], 'Replies.CSV'));
  expect(PLAN.lines.map(kindOf)).toEqual(['new', 'unchanged', 'bad', 'changed']);
  expect(importing.counts).toEqual({ new: 1, changed: 1, unchanged: 1, bad: 1 });
  expect(importing.told.map(({ line }) => line)).toEqual([3, 1, 4]);
  await importing.take();
  expect(api.calls.filter((call) => call.startsWith('import'))).toEqual([]);

  importing.skipBad = true;
  await importing.take();
  expect(api.calls).toContain('import csv, skip bad: true');
  expect([importing.file, importing.change?.steps]).toEqual([null, ['imported from Replies.CSV']]);
  api.learnAll();
  await settle();
  expect(importing.change?.steps.at(-1)).toBe('learned in version 43');
});

test('what is no such file says why', async () => {
  const { api, repertoire } = await openRepertoire();
  api.broken = 'the file is not UTF-8';
  await repertoire.importing.choose(new File(['...'], 'a.jsonl'));
  expect([repertoire.importing.problem, repertoire.importing.plan]).toEqual(['the file is not UTF-8', null]);
});

test('news bring new gaps while somebody looks at them', async () => {
  const { api, repertoire } = await openRepertoire();
  expect(repertoire.gaps.openCount).toBe(0);
  api.clusters = [cluster('a')];
  api.publish();
  await settle();
  await settle();
  expect(repertoire.gaps.openCount).toBe(0);
  repertoire.lookAtGaps(true);
  await settle();
  expect(repertoire.gaps.openCount).toBe(1);
  api.clusters = [];
  api.publish();
  await settle();
  await settle();
  expect(repertoire.gaps.openCount).toBe(0);
});
