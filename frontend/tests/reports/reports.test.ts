import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import type { ColumnChoice, ReplayRequest, ReplaysApi, ReportApi } from '../../src/lib/api/reports';
import type { ServerEvent } from '../../src/lib/ui/events';
import { Replays } from '../../src/lib/reports/replays.svelte';
import { Report } from '../../src/lib/reports/report.svelte';
import type { RecognisedColumn, Replay, ReportState } from '../../src/lib/schema';
import { bytes } from '../../src/lib/ui/wording';
import { settle } from '../fake';

/** Pauses that end when the test calls `pass`. */
function pauses() {
  let ends: (() => void)[] = [];
  const pause = () => new Promise<void>((resolve) => ends.push(resolve));
  const pass = async () => {
    const now = ends;
    ends = [];
    for (const end of now) end();
    await settle();
  };
  return { pause, pass };
}

class FakeReportApi implements ReportApi {
  now: ReportState = {
    until: null,
    made_at: null,
    head: 12,
    making: null,
    failed: null,
    reports: [],
  };
  requests = 0;
  generated = 0;
  broken: string | null = null;
  send: (event: ServerEvent) => void = () => {};

  async state() {
    this.requests += 1;
    if (this.broken !== null) throw new ApiError(this.broken, 503);
    return this.now;
  }

  async generate() {
    this.generated += 1;
    return (this.now = { ...this.now, making: { what: 'replaying it', percent: 0 }, failed: null });
  }

  cancelled = 0;
  async cancel() {
    this.cancelled += 1;
    this.now = { ...this.now, making: null };
  }

  events(onEvent: (event: ServerEvent) => void) {
    this.send = onEvent;
    return () => {};
  }

  page = (until: number) => `/report?until=${until}`;
}

/** A report that is done, up to an event. */
const done = (until: number, others: number[] = []): Partial<ReportState> => ({
  until,
  making: null,
  reports: [until, ...others].map((each) => ({ until: each, made_at: '', finding: null })),
});

async function openReport(now: Partial<ReportState> = {}) {
  const api = new FakeReportApi();
  api.now = { ...api.now, ...now };
  const { pause, pass } = pauses();
  const report = new Report(api, pause);
  void report.start();
  await settle();
  return { api, report, pass };
}

test('the first report is generated at once and its progress is followed', async () => {
  const { api, report, pass } = await openReport();
  expect([api.generated, report.state?.making?.percent, report.entryOf(null)]).toEqual([1, 0, null]);
  api.now = { ...api.now, making: { what: 'replaying it', percent: 40 } };
  await pass();
  expect(report.state?.making?.percent).toBe(40);
  api.now = { ...api.now, ...done(12) };
  await pass();
  expect([report.entryOf(null)?.until, report.newEventCount]).toEqual([12, 0]);
  const { requests } = api;
  await pass();
  expect(api.requests).toBe(requests); // no request while no report is generated
});

test('an existing report is shown, new events are counted, and it is generated again on request', async () => {
  const { api, report, pass } = await openReport(done(12));
  expect([api.generated, report.newEventCount]).toEqual([0, 0]);
  api.now = { ...api.now, head: 15 };
  api.send({ type: 'counted' });
  await settle();
  expect(report.newEventCount).toBe(3);
  await report.generate();
  api.now = { ...api.now, ...done(15, [12]) };
  await pass();
  expect([report.entryOf(null)?.until, report.newEventCount]).toEqual([15, 0]);
  expect([12, 7].map((until) => report.entryOf(until)?.until)).toEqual([12, 15]); // an older one, and one that is gone
});

test('a report that is being made can be cancelled', async () => {
  const { api, report } = await openReport();
  await report.cancel();
  expect([api.cancelled, report.state?.making]).toEqual([1, null]);
});

test('no report is generated without feedback, and a failed one gives the reason', async () => {
  expect((await openReport({ head: 0 })).api.generated).toBe(0);
  const { api, report } = await openReport({ failed: 'no room' });
  expect([api.generated, report.problem]).toEqual([0, 'no room']);
});

test('a failed request for the state is repeated while a report is generated', async () => {
  const { api, report, pass } = await openReport();
  api.broken = 'The server does not answer.';
  await pass();
  expect(report.problem).toBe('The server does not answer.');
  api.broken = null;
  await pass();
  expect(report.problem).toBe(null);
});

class FakeReplaysApi implements ReplaysApi {
  replays: Replay[] = [];
  requests: ReplayRequest[] = [];
  broken: string | null = null;

  async list() {
    if (this.broken !== null) throw new ApiError(this.broken, 503);
    return { replays: this.replays, kinds: ['classifier', 'knn'], max_bytes: 100_000 };
  }

  looks: ColumnChoice[] = [];
  columns: RecognisedColumn[] = [];
  refused: string | null = null;

  async recogniseColumns(_start: Blob, _name: string, _label: string, choice: ColumnChoice) {
    if (this.refused !== null) throw new ApiError(this.refused, 400);
    this.looks.push(choice);
    return { rows: 40, input: 'table' as const, columns: this.columns };
  }

  async send(log: File, request: ReplayRequest, onProgress: (share: number) => void, signal: AbortSignal) {
    if (this.broken !== null) throw new ApiError(this.broken, 503);
    signal.throwIfAborted();
    onProgress(1);
    this.requests.push(request);
    const replay = {
      id: `r${this.requests.length}`,
      name: log.name,
      size_bytes: log.size,
      created_at: '',
      models: [],
    };
    this.replays = [
      {
        ...replay,
        state: 'waiting',
        progress: { what: 'waiting', percent: 0 },
        error: null,
        finding: null,
      },
      ...this.replays,
    ];
    return this.replays[0]!;
  }

  async drop(id: string) {
    this.replays = this.replays.filter((each) => each.id !== id);
  }

  page = (id: string) => `/${id}`;

  end(more: Partial<Replay>) {
    this.replays = this.replays.map((each) => ({ ...each, progress: null, ...more }));
  }
}

async function openReplays() {
  const api = new FakeReplaysApi();
  const { pause, pass } = pauses();
  const replays = new Replays(api, pause);
  await replays.start();
  return { api, replays, pass };
}

const csv = (text = 'size,"colour, or none",side\n1,red,left\n', name = 'sides.csv') => new File([text], name);

const column = (name: string, more: Partial<RecognisedColumn> = {}): RecognisedColumn => ({
  name,
  kind: 'number',
  reason: 'numbers',
  treatment: 'read',
  reads: '',
  ...more,
});
const code = column('code', {
  kind: 'identifier',
  reason: 'another_word',
  treatment: 'left_out',
});

async function openColumns() {
  const { api, replays } = await openReplays();
  api.columns = [column('size'), column('age'), code];
  await replays.choose(csv());
  await settle();
  return { api, replays };
}

test('a column that is unticked is dropped from the replay', async () => {
  const { api, replays } = await openColumns();
  expect(replays.columns.listed.map(({ name, isRead }) => [name, isRead])).toEqual([
    ['size', true],
    ['age', true],
    ['code', false],
  ]);
  await replays.columns.toggle('age');
  await replays.send();
  expect(api.requests[0]?.columns).toEqual({ drop: ['age'], features: [] });
});

test('an identifier that is ticked is read with the other columns', async () => {
  const { api, replays } = await openColumns();
  await replays.columns.toggle('code');
  await replays.send();
  expect(api.requests[0]?.columns).toEqual({ drop: [], features: ['size', 'age', 'code'] });
  expect(api.looks.at(-1)).toEqual(api.requests[0]?.columns);
});

test('without any column nothing can be replayed, and a refused file has one sentence', async () => {
  const { api, replays } = await openColumns();
  await replays.columns.toggle('size');
  await replays.columns.toggle('age');
  expect([replays.columns.hasNone, replays.ready]).toEqual([true, false]);
  api.refused = 'sides.csv has no column';
  await replays.lookAtColumns();
  expect(replays.columns.problem).toBe('sides.csv has no column');
});

test('a log is sent with the chosen options and followed until its result', async () => {
  const { api, replays, pass } = await openReplays();
  await replays.choose(csv());
  replays.toggle('knn');
  replays.toggle('classifier');
  replays.toggle('knn');
  replays.skipBadLines = true;
  expect(await replays.send()).toBe('r1');
  const columns = { drop: [], features: [] };
  expect(api.requests).toEqual([{ models: ['classifier'], label: 'side', maxBadRatio: 0.1, columns }]);
  expect([replays.file, replays.uploadRatio, replays.all.length, replays.latestResult]).toEqual([null, null, 1, null]);
  api.end({ state: 'done' });
  await pass();
  expect(replays.latestResult?.id).toBe('r1');
  await replays.drop('r1');
  expect([replays.all, replays.latestResult]).toEqual([[], null]);
});

test('a replay that runs when the page is opened is followed to its result', async () => {
  const { api, replays, pass } = await openReplays();
  await replays.choose(csv());
  await replays.send();
  const reloaded = new Replays(api, async () => pass());
  await reloaded.start();
  reloaded.follow('r1');
  reloaded.follow('r9');
  api.end({ state: 'done' });
  await pass();
  await settle();
  expect(reloaded.latestResult?.id).toBe('r1');
  reloaded.stop();
});

test('a table without a label is not ready, any other log is', async () => {
  const { replays } = await openReplays();
  await replays.choose(new File(['?'], 'rows.parquet'));
  expect([replays.asksForLabel, replays.ready]).toEqual([true, false]);
  replays.label = 'side';
  expect(replays.ready).toBe(true);
  await replays.choose(new File(['{}'], 'log.jsonl.zst'));
  expect([replays.asksForLabel, replays.ready, replays.label]).toEqual([false, true, '']);
});

test('a log that is too large is not sent', async () => {
  const { replays } = await openReplays();
  await replays.choose(new File(['x'.repeat(100_001)], 'large.jsonl'));
  expect([replays.file, replays.problem]).toEqual([
    null,
    'large.jsonl is 100\u00a0kB. This service takes logs of at most 100\u00a0kB.',
  ]);
});

test('a log that cannot be sent stays chosen and gives the reason', async () => {
  const { api, replays } = await openReplays();
  await replays.choose(csv());
  api.broken = '8 logs wait already';
  await replays.send();
  expect([replays.problem, replays.file?.name, replays.uploadRatio]).toEqual([
    '8 logs wait already',
    'sides.csv',
    null,
  ]);
});

test('sizes are shown in a suitable unit', () => {
  expect([33, 700, 5_300_000, 268_435_456, 2e9].map(bytes)).toEqual([
    '33\u00a0B',
    '0.7\u00a0kB',
    '5.3\u00a0MB',
    '268\u00a0MB',
    '2\u00a0GB',
  ]);
});
