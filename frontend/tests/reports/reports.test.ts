import { expect, test } from 'vitest';
import type { ReplayRequest, ReplaysApi, ReportApi } from '../../src/lib/api';
import { parseCells, readColumns } from '../../src/lib/reports/columns';
import type { ServerEvent } from '../../src/lib/ui/events';
import { Replays } from '../../src/lib/reports/replays.svelte';
import { Report } from '../../src/lib/reports/report.svelte';
import type { Replay, ReportState } from '../../src/lib/schema';
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
    if (this.broken !== null) throw new Error(this.broken);
    return this.now;
  }

  async generate() {
    this.generated += 1;
    return (this.now = { ...this.now, making: { what: 'replaying it', percent: 0 }, failed: null });
  }

  events(onEvent: (event: ServerEvent) => void) {
    this.send = onEvent;
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

test('the first report is generated at once and its progress is followed', async () => {
  const { api, report, pass } = await openReport();
  expect([api.generated, report.state?.making?.percent, report.page]).toEqual([1, 0, null]);
  api.now = { ...api.now, making: { what: 'replaying it', percent: 40 } };
  await pass();
  expect(report.state?.making?.percent).toBe(40);
  api.now = { ...api.now, until: 12, making: null };
  await pass();
  expect([report.page, report.newEventCount]).toEqual(['/report?until=12', 0]);
  const { requests } = api;
  await pass();
  expect(api.requests).toBe(requests); // no request while no report is generated
});

test('an existing report is shown, new events are counted, and it is generated again on request', async () => {
  const { api, report, pass } = await openReport({ until: 12 });
  expect([api.generated, report.newEventCount]).toEqual([0, 0]);
  api.now = { ...api.now, head: 15 };
  api.send({ type: 'counted' });
  await settle();
  expect(report.newEventCount).toBe(3);
  await report.generate();
  api.now = { ...api.now, until: 15, making: null };
  await pass();
  expect([report.page, report.newEventCount]).toEqual(['/report?until=15', 0]);
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
    if (this.broken !== null) throw new Error(this.broken);
    return { replays: this.replays, kinds: ['classifier', 'knn'], max_bytes: 100_000 };
  }

  async send(
    log: File,
    request: ReplayRequest,
    onProgress: (share: number) => void,
    signal: AbortSignal,
  ) {
    if (this.broken !== null) throw new Error(this.broken);
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

const csv = (text = 'size,"colour, or none",side\n1,red,left\n', name = 'sides.csv') =>
  new File([text], name);

test('the columns of a table are read, compressed or not, and the last one is the default label', async () => {
  const { replays } = await openReplays();
  await replays.choose(csv());
  expect([replays.columns, replays.label]).toEqual([['size', 'colour, or none', 'side'], 'side']);

  const packed = new Response(csv().stream().pipeThrough(new CompressionStream('gzip')));
  expect(await readColumns(new File([await packed.arrayBuffer()], 'sides.CSV.gz'))).toEqual(
    replays.columns,
  );
  expect(await readColumns(new File(['no gzip'], 'a.csv.gz'))).toEqual([]);
  expect(await readColumns(csv('', 'a.csv.zst'))).toEqual([]);
  expect(parseCells('a,"say ""b""",,c')).toEqual(['a', 'say "b"', '', 'c']);
});

test('a log is sent with the chosen options and followed until its result', async () => {
  const { api, replays, pass } = await openReplays();
  await replays.choose(csv());
  replays.toggle('knn');
  replays.toggle('classifier');
  replays.toggle('knn');
  replays.skipBadLines = true;
  await replays.send();
  expect(api.requests).toEqual([{ models: ['classifier'], label: 'side', maxBadRatio: 0.1 }]);
  expect([replays.file, replays.uploadRatio, replays.all.length, replays.latestResult]).toEqual([
    null,
    null,
    1,
    null,
  ]);
  api.end({ state: 'done' });
  await pass();
  expect(replays.latestResult?.id).toBe('r1');
  await replays.drop('r1');
  expect([replays.all, replays.latestResult]).toEqual([[], null]);
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
    'large.jsonl is 100\u00a0kB; this service accepts logs of at most 100\u00a0kB.',
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
  expect([700, 5_300_000, 268_435_456, 2e9].map(bytes)).toEqual([
    '0.7\u00a0kB',
    '5.3\u00a0MB',
    '268\u00a0MB',
    '2\u00a0GB',
  ]);
});
