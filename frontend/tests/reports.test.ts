import { expect, test } from 'vitest';
import type { ReplayRequest, ReplaysApi, ReportApi } from '../src/lib/api';
import { cellsOf, columnsOf } from '../src/lib/columns';
import type { ServerEvent } from '../src/lib/events';
import { Replays } from '../src/lib/replays.svelte';
import { Report } from '../src/lib/report.svelte';
import type { Replay, ReportState } from '../src/lib/schema';
import { bytes } from '../src/lib/words';
import { settle } from './fake';

/** Pauses that end when the test says so. */
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
  now: ReportState = { until: null, made_at: null, head: 12, making: null, failed: null };
  asked = 0;
  made = 0;
  broken: string | null = null;
  tell: (event: ServerEvent) => void = () => {};

  async state() {
    this.asked += 1;
    if (this.broken !== null) throw new Error(this.broken);
    return this.now;
  }

  async make() {
    this.made += 1;
    return (this.now = { ...this.now, making: { what: 'replaying it', percent: 0 }, failed: null });
  }

  events(hear: (event: ServerEvent) => void) {
    this.tell = hear;
    return () => {};
  }

  page = (until: number) => `/report?until=${until}`;
}

async function openReport(now: Partial<ReportState> = {}) {
  const api = new FakeReportApi();
  api.now = { ...api.now, ...now };
  const { pause, pass } = pauses();
  const report = new Report(api, pause);
  void report.start();
  await settle();
  return { api, report, pass };
}

test('the first report is made without being asked for, and its progress is followed until it is there', async () => {
  const { api, report, pass } = await openReport();
  expect([api.made, report.state?.making?.percent, report.page]).toEqual([1, 0, null]);
  api.now = { ...api.now, making: { what: 'replaying it', percent: 40 } };
  await pass();
  expect(report.state?.making?.percent).toBe(40);
  api.now = { ...api.now, until: 12, making: null };
  await pass();
  expect([report.page, report.since]).toEqual(['/report?until=12', 0]);
  const { asked } = api;
  await pass();
  expect(api.asked).toBe(asked); // nothing is made: nothing is asked
});

test('one that is there is shown as it is; what came since is counted as it comes, and it is made anew when told to', async () => {
  const { api, report, pass } = await openReport({ until: 12 });
  expect([api.made, report.since]).toEqual([0, 0]);
  api.now = { ...api.now, head: 15 };
  api.tell({ type: 'counted' });
  await settle();
  expect(report.since).toBe(3);
  await report.make();
  api.now = { ...api.now, until: 15, making: null };
  await pass();
  expect([report.page, report.since]).toEqual(['/report?until=15', 0]);
});

test('of a model that was told nothing, none is made; of one whose report failed, the reason is told', async () => {
  expect((await openReport({ head: 0 })).api.made).toBe(0);
  const { api, report } = await openReport({ failed: 'no room' });
  expect([api.made, report.problem]).toEqual([0, 'no room']);
});

test('a report that cannot be asked for is asked for again while one is made', async () => {
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
    if (this.broken !== null) throw new Error(this.broken);
    return { replays: this.replays, kinds: ['classifier', 'knn'], max_bytes: 100_000 };
  }

  async send(log: File, asked: ReplayRequest, at: (share: number) => void, signal: AbortSignal) {
    if (this.broken !== null) throw new Error(this.broken);
    signal.throwIfAborted();
    at(1);
    this.requests.push(asked);
    const replay = { id: `r${this.requests.length}`, name: log.name, size_bytes: log.size, created_at: '', models: [] };
    this.replays = [{ ...replay, state: 'waiting', progress: { what: 'waiting', percent: 0 }, error: null }, ...this.replays];
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

test('the columns of a table are read from its beginning, packed or not, and the last one is taken for the label', async () => {
  const { replays } = await openReplays();
  await replays.choose(csv());
  expect([replays.columns, replays.label]).toEqual([['size', 'colour, or none', 'side'], 'side']);

  const packed = new Response(csv().stream().pipeThrough(new CompressionStream('gzip')));
  expect(await columnsOf(new File([await packed.arrayBuffer()], 'sides.CSV.gz'))).toEqual(replays.columns);
  expect(await columnsOf(new File(['no gzip'], 'a.csv.gz'))).toEqual([]);
  expect(await columnsOf(csv('', 'a.csv.zst'))).toEqual([]);
  expect(cellsOf('a,"say ""b""",,c')).toEqual(['a', 'say "b"', '', 'c']);
});

test('a log is sent with what was chosen, watched until it is done, and what it came to is told', async () => {
  const { api, replays, pass } = await openReplays();
  await replays.choose(csv());
  replays.toggle('knn');
  replays.toggle('classifier');
  replays.toggle('knn');
  replays.leaveOutBad = true;
  await replays.send();
  expect(api.requests).toEqual([{ models: ['classifier'], label: 'side', maxBadRatio: 0.1 }]);
  expect([replays.file, replays.sent, replays.all.length, replays.news]).toEqual([null, null, 1, null]);
  api.end({ state: 'done' });
  await pass();
  expect(replays.news?.id).toBe('r1');
  await replays.drop('r1');
  expect([replays.all, replays.news]).toEqual([[], null]);
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

test('a log that is too large is not even sent', async () => {
  const { replays } = await openReplays();
  await replays.choose(new File(['x'.repeat(100_001)], 'large.jsonl'));
  expect([replays.file, replays.problem]).toEqual([
    null,
    'large.jsonl has 100\u00a0kB; this service takes logs of at most 100\u00a0kB.',
  ]);
});

test('a log that cannot be sent stays chosen, and says why', async () => {
  const { api, replays } = await openReplays();
  await replays.choose(csv());
  api.broken = '8 logs wait already';
  await replays.send();
  expect([replays.problem, replays.file?.name, replays.sent]).toEqual(['8 logs wait already', 'sides.csv', null]);
});

test('sizes are told in the unit that fits', () => {
  expect([700, 5_300_000, 268_435_456, 2e9].map(bytes)).toEqual(['0.7\u00a0kB', '5.3\u00a0MB', '268\u00a0MB', '2\u00a0GB']);
});
