/* How a model is used: the figures of a range of time, and what was asked most in it.

   a range is chosen -> from, until, unit -> usage, top questions -> figures, charts, tables, CSV
*/

import type { UsageApi, UsageRange } from '../api/learning';
import { t } from '../messages';
import type { TopQuestion, TopQuestions, UsageAnswer, UsageSpan, UsageUnit } from '../schema';
import type { Chart } from '../ui/plots';
import { problemOf } from '../ui/problems';
import { dayOf, hourOf, monthOf } from '../ui/wording';

export const RANGES = ['day', 'week', 'month', 'quarter', 'year', 'custom'] as const;
export type RangeName = (typeof RANGES)[number];

const HOURS = 24;
const DAYS: Record<'week' | 'month' | 'quarter' | 'year', number> = {
  week: 7,
  month: 30,
  quarter: 90,
  year: 365,
};
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A day of the local calendar, such as "2026-05-01". offset: days to add. */
export function localDay(at: Date, offset = 0): string {
  const day = new Date(at.getFullYear(), at.getMonth(), at.getDate() + offset);
  const parts = [day.getFullYear(), day.getMonth() + 1, day.getDate()];
  return parts.map((part, place) => String(part).padStart(place ? 2 : 4, '0')).join('-');
}

/** The unit in which a number of days has some thirty to a hundred spans. */
export function unitOf(days: number): UsageUnit {
  if (days <= 2) return 'hour';
  if (days <= 120) return 'day';
  return days <= 800 ? 'week' : 'month';
}

export class Usage {
  range = $state<RangeName>('month');
  /** Of the custom range: the first and the last day, both included. */
  from = $state('');
  until = $state('');
  answer = $state.raw<UsageAnswer | null>(null);
  questions = $state.raw<TopQuestions | null>(null);
  problem = $state<string | null>(null);
  isLoading = $state(false);

  spans = $derived(this.answer?.spans ?? []);
  satisfaction = $derived(this.answer && satisfactionChart(this.answer));
  asked = $derived(this.answer && questionsChart(this.answer));

  private turn = 0;
  private hasChosen = false;

  constructor(
    readonly api: UsageApi,
    private now: () => Date,
    private timezone: string,
  ) {
    this.from = localDay(now(), 1 - DAYS.month);
    this.until = localDay(now());
  }

  choose(range: RangeName) {
    this.hasChosen = true;
    this.range = range;
    void this.load();
  }

  /** Load the chosen range. What arrives after another range was chosen is dropped. */
  async load() {
    const turn = (this.turn += 1);
    const asked = this.asking();
    if (asked === null) {
      this.problem = t.usage.wrongOrder;
      return;
    }
    this.isLoading = true;
    try {
      const [span, unit] = asked;
      const found = await Promise.all([this.api.usage(span, unit), this.api.topQuestions(span)]);
      if (turn !== this.turn) return;
      const fitting = this.hasChosen ? this.range : fittingRange(found[0], this.now());
      this.hasChosen = true;
      if (fitting !== this.range) return this.choose(fitting);
      [this.answer, this.questions] = found;
      this.problem = null;
    } catch (error) {
      if (turn === this.turn) this.problem = problemOf(error);
    } finally {
      if (turn === this.turn) this.isLoading = false;
    }
  }

  /** The range and the unit to ask for; null for dates in the wrong order. */
  private asking(): [UsageRange, UsageUnit] | null {
    const { range, timezone } = this;
    const now = this.now();
    if (range === 'custom') {
      const days = Math.round((Date.parse(this.until) - Date.parse(this.from)) / DAY_MS) + 1;
      if (!(days > 0)) return null;
      const [year, month, day] = this.until.split('-').map(Number) as [number, number, number];
      const end = localDay(new Date(year, month - 1, day), 1);
      return [{ from: this.from, until: end, timezone }, unitOf(days)];
    }
    if (range === 'day') {
      const hour = new Date(now.getTime() - (HOURS - 1) * HOUR_MS);
      hour.setMinutes(0, 0, 0);
      return [{ from: hour.toISOString(), until: null, timezone }, 'hour'];
    }
    const days = DAYS[range];
    return [{ from: localDay(now, 1 - days), until: null, timezone }, unitOf(days)];
  }
}

/** The shortest range with everything that was counted, so that a young service has no chart of empty days; else the default. */
function fittingRange({ counted_since, total }: UsageAnswer, now: Date): RangeName {
  if (counted_since === null || total.asked === 0) return 'month';
  const age_ms = now.getTime() - Date.parse(counted_since);
  if (age_ms < (HOURS - 1) * HOUR_MS) return 'day';
  return age_ms < (DAYS.week - 1) * DAY_MS ? 'week' : 'month';
}

const LABELS: Record<UsageUnit, (at: string) => string> = {
  hour: hourOf,
  day: dayOf,
  week: dayOf,
  month: monthOf,
};

/** What a span is called: its hour, its day, or the day with which its week begins. */
export const nameSpan = (span: UsageSpan, by: UsageUnit) => LABELS[by](span.since);

function chartOf({ spans, by }: UsageAnswer, lines: Chart['lines']): Chart {
  return {
    xLabel: t.usage.time,
    places: spans.map((_, place) => place),
    lines,
    marks: [],
    showX: (place) => (spans[place] ? nameSpan(spans[place], by) : ''),
  };
}

/** The satisfaction of each span with its interval; null if nothing was rated. */
export function satisfactionChart(answer: UsageAnswer): Chart | null {
  const { spans, total } = answer;
  if (total.satisfaction === null) return null;
  const values = spans.map(({ satisfaction }) => satisfaction);
  return {
    ...chartOf(answer, [{ name: t.usage.satisfaction, values }]),
    band: {
      name: t.usage.likely,
      low: spans.map((span) => span.satisfaction_low),
      high: spans.map((span) => span.satisfaction_high),
    },
  };
}

/** How many questions each span had, and how many of them were answered without staff. */
export function questionsChart(answer: UsageAnswer): Chart {
  const chart = chartOf(answer, [
    { name: t.usage.asked, values: answer.spans.map(({ asked }) => asked) },
    { name: t.usage.alone, values: answer.spans.map(({ answered_alone }) => answered_alone) },
  ]);
  return { ...chart, bars: true };
}

type Cell = string | number | null;

/** A cell of a CSV file. A text that a spreadsheet would compute begins with an apostrophe. */
function cell(value: Cell): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  const written = String(text ?? '');
  return /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
}

const csv = (rows: Cell[][]) => rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');

const FIGURES = [
  'since',
  'until',
  'asked',
  'answered',
  'answered_alone',
  'rated',
  'good',
  'bad',
  'corrected',
  'satisfaction',
  'satisfaction_low',
  'satisfaction_high',
] as const;

export const spansAsCsv = (spans: UsageSpan[]) =>
  csv([[...FIGURES], ...spans.map((span) => FIGURES.map((name) => span[name]))]);

const QUESTION_COLUMNS = [
  'text',
  'variant_count',
  'asked',
  'unanswered',
  'good',
  'bad',
  'reply',
  'reply_text',
] as const;

export const questionsAsCsv = (questions: TopQuestion[]) =>
  csv([[...QUESTION_COLUMNS], ...questions.map((question) => QUESTION_COLUMNS.map((name) => question[name]))]);
