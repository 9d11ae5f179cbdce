import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import type { UsageApi, UsageRange } from '../../src/lib/api/learning';
import { Alerts } from '../../src/lib/learning/alerts.svelte';
import { localDay, questionsAsCsv, spansAsCsv, unitOf, Usage } from '../../src/lib/learning/usage.svelte';
import type { AlertsAnswer, TopQuestion, TopQuestions, UsageAnswer, UsageSpan, UsageUnit } from '../../src/lib/schema';
import { settle } from '../fake';

const NOW = new Date(2026, 4, 30, 14, 20);

const span = (since: string, satisfaction: number | null): UsageSpan => ({
  since,
  until: since,
  asked: 4,
  answered: 3,
  rated: 2,
  good: 1,
  bad: 1,
  corrected: 1,
  satisfaction,
  satisfaction_low: satisfaction === null ? null : 0.1,
  satisfaction_high: satisfaction === null ? null : 0.9,
  answered_alone: 2,
  answered_alone_share: 0.5,
});

const answerOf = (spans: UsageSpan[], by: UsageUnit = 'day'): UsageAnswer => ({
  since: '',
  until: '',
  by,
  timezone: 'Europe/Berlin',
  total: span('', spans.find(({ satisfaction }) => satisfaction !== null)?.satisfaction ?? null),
  spans,
  counted_since: null,
  kept_since: null,
  is_complete: true,
});

const NO_QUESTIONS: TopQuestions = {
  since: '',
  until: '',
  timezone: '',
  questions: [],
  looked_at: 0,
  complete_since: null,
  reason: null,
};

class FakeUsageApi implements UsageApi {
  asked: [UsageRange, UsageUnit][] = [];
  answers: (() => Promise<UsageAnswer>)[] = [];

  async usage(range: UsageRange, by: UsageUnit) {
    this.asked.push([range, by]);
    return (this.answers.shift() ?? (async () => answerOf([])))();
  }

  async topQuestions() {
    return NO_QUESTIONS;
  }
}

function openUsage() {
  const api = new FakeUsageApi();
  return { api, usage: new Usage(api, () => NOW, 'Europe/Berlin') };
}

test('each range asks for its days in the time zone of the person', async () => {
  const { api, usage } = openUsage();
  for (const range of ['week', 'month', 'quarter', 'year'] as const) usage.choose(range);
  await settle();
  expect(api.asked.map(([{ from, until, timezone }, by]) => [from, until, timezone, by])).toEqual([
    ['2026-05-24', null, 'Europe/Berlin', 'day'],
    ['2026-05-01', null, 'Europe/Berlin', 'day'],
    ['2026-03-02', null, 'Europe/Berlin', 'day'],
    ['2025-05-31', null, 'Europe/Berlin', 'week'],
  ]);
});

test('24 hours begin with a full hour', async () => {
  const { api, usage } = openUsage();
  usage.choose('day');
  await settle();
  const [range, by] = api.asked[0]!;
  expect([new Date(range.from), by]).toEqual([new Date(2026, 4, 29, 15), 'hour']);
});

test('both days of a custom range are included', async () => {
  const { api, usage } = openUsage();
  [usage.from, usage.until] = ['2026-02-27', '2026-02-28'];
  usage.choose('custom');
  await settle();
  expect(api.asked).toEqual([[{ from: '2026-02-27', until: '2026-03-01', timezone: 'Europe/Berlin' }, 'hour']]);
  [usage.from, usage.until] = ['2026-03-02', '2026-02-28'];
  await usage.load();
  expect(usage.problem).toBe('The first day is after the last one.');
  [usage.from, usage.until] = ['', '2026-02-28'];
  await usage.load();
  expect(api.asked).toHaveLength(1);
});

test('an answer that arrives after another range was chosen is dropped', async () => {
  const { api, usage } = openUsage();
  let arrive = (_: UsageAnswer) => {};
  api.answers = [
    () => new Promise((resolve) => (arrive = resolve)),
    async () => answerOf([span('2026-05-30T00:00:00+02:00', 0.75)]),
  ];
  usage.choose('week');
  usage.choose('month');
  await settle();
  arrive(answerOf([]));
  await settle();
  expect(usage.spans).toHaveLength(1);
  expect(usage.isLoading).toBe(false);
});

test('a failure keeps what was shown, and says what happened', async () => {
  const { api, usage } = openUsage();
  api.answers = [
    async () => answerOf([span('2026-05-30T00:00:00+02:00', 0.75)]),
    () => Promise.reject(new ApiError('raw', 503)),
  ];
  await usage.load();
  await usage.load();
  expect(usage.spans).toHaveLength(1);
  expect(usage.problem).not.toBeNull();
  expect(usage.problem).not.toContain('raw');
});

test('the charts name their days, and there is none of a satisfaction that nobody rated', async () => {
  const { api, usage } = openUsage();
  api.answers = [
    async () => answerOf([span('2026-05-29T00:00:00', null), span('2026-05-30T00:00:00', 0.75)]),
    async () => answerOf([span('2026-05-29T00:00:00', null)]),
  ];
  await usage.load();
  const { satisfaction, asked } = usage;
  expect(satisfaction?.lines[0]?.values).toEqual([null, 0.75]);
  expect(satisfaction?.band?.low).toEqual([null, 0.1]);
  expect([0, 1, 2].map((place) => satisfaction?.showX?.(place))).toEqual(['May 29', 'May 30', '']);
  expect(asked?.lines.map(({ values }) => values)).toEqual([
    [4, 4],
    [2, 2],
  ]);
  await usage.load();
  expect(usage.satisfaction).toBeNull();
});

test('units keep the number of spans small', () => {
  expect([1, 2, 3, 120, 121, 800, 801].map(unitOf)).toEqual(['hour', 'hour', 'day', 'day', 'week', 'week', 'month']);
  expect(localDay(new Date(2026, 0, 1), -1)).toBe('2025-12-31');
});

test('a file for spreadsheets quotes texts, and computes none of them', () => {
  const question = { text: '=HYPERLINK("x"), "now"', reply_text: null, asked: 3 } as TopQuestion;
  expect(questionsAsCsv([question])).toContain(`"'=HYPERLINK(""x""), ""now""",,3,`);
  expect(spansAsCsv([span('2026-05-29', null)])).toBe(
    'since,until,asked,answered,answered_alone,rated,good,bad,corrected,satisfaction,satisfaction_low,satisfaction_high\r\n' +
      '2026-05-29,2026-05-29,4,3,2,2,1,1,1,,,\r\n',
  );
});

test('a test of the alerts says what each endpoint said', async () => {
  const answer: AlertsAnswer = { endpoints: [], is_signed: false, min_interval_s: 300, alerts: [] };
  const tested = [
    {
      endpoint: 'https://chat.example.com/…',
      status: 404,
      error: 'status 404',
      answer: '',
      duration_ms: 3,
    },
  ];
  const alerts = new Alerts({ list: async () => answer, test: async () => tested });
  await alerts.load();
  await alerts.test();
  expect([alerts.answer, alerts.tested, alerts.isTesting]).toEqual([answer, tested, false]);
  const broken = new Alerts({
    list: () => Promise.reject(new ApiError('raw', 500)),
    test: () => Promise.reject(new ApiError('raw', 500)),
  });
  await broken.test();
  expect(broken.problem).not.toBeNull();
});

test('a young service begins with the shortest range that has everything, which a person can change', async () => {
  const api = new FakeUsageApi();
  const spans = [span('2026-05-30T12:00', 0.5)];
  const young = { ...answerOf(spans), counted_since: new Date(2026, 4, 30, 12).toISOString() };
  api.answers = [async () => young, async () => young, async () => young];
  const usage = new Usage(api, () => NOW, 'Europe/Berlin');
  await usage.load();
  await settle();
  expect([usage.range, api.asked.map(([, unit]) => unit)]).toEqual(['day', ['day', 'hour']]);
  usage.choose('month');
  await settle();
  expect([usage.range, usage.answer]).toEqual(['month', young]);
});
