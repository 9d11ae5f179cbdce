import { expect, test } from 'vitest';
import { duration, wordReason, wordVerdict } from '../../src/lib/learning/verdict';
import { VersionList, isAhead, isOlder } from '../../src/lib/learning/version_list.svelte';
import type { Health, HealthReason, Version, VersionPage } from '../../src/lib/schema';

const HEALTH = { measure: 'right' } as Health;

const word = (code: string, figures: HealthReason['figures']) =>
  wordReason({ code, level: 'attention', sentence: 'unknown', figures }, HEALTH);

test.each([
  ['below_baseline', { guesser: 'no_change', count: 200, other: 0.7, model: 0.4 }],
  ['quarantine_open', { since: 7 }],
  ['unservable', {}],
  ['snapshots_rejected', { since: 7, reason: 'worse' }],
  ['much_refused', { refused: 3, of: 9 }],
  ['some_refused', { refused: 3, of: 9 }],
  ['learner_stopped', {}],
  ['learner_restarting', { reason: 'it ended' }],
  ['declining', { after: 0.82, count: 100, before: 0.91, before_count: 500 }],
  ['recovering', { count: 30, after: 0.9 }],
  ['frozen', { reason: '' }],
  ['learning_again', { reason: 'another log' }],
  ['behind', { events: 9, waiting_s: 90 }],
  ['rolled_back', { version: '3', newest: '5' }],
  ['drift', { what: 'loss', since: 7 }],
  ['drift_over', { what: 'loss', since: 7 }],
  ['version_damaged', { versions: '3' }],
  ['events_expired', { until: 7 }],
  ['too_few_ratings', { rated: 3, enough: 30 }],
  ['still_counting', { counted: 3, of: 9 }],
])('%s has a sentence of its own', (code, figures: HealthReason['figures']) => {
  const sentence = word(code, figures);
  expect(sentence).not.toContain('unknown');
  expect(sentence).not.toMatch(/undefined|NaN|null/);
});

test('a reason that this page does not know keeps the sentence of the service', () => {
  expect(word('brand_new', {})).toBe('unknown.');
});

const ROLLED_BACK: HealthReason = {
  code: 'rolled_back',
  level: 'notice',
  sentence: '',
  figures: { version: '41', newest: '50' },
};
const RECENT = { count: 100, mean: 0.88, offset: 9 };
const HELD = { ...HEALTH, version: '41', newest_version: '50', recent: RECENT } as Health;

test('after a roll back the verdict is no good one before learning is stopped', () => {
  const health = { ...HELD, status: 'good' } as Health;
  const learns = wordVerdict({ ...health, reasons: [ROLLED_BACK] });
  expect(learns).toMatchObject({ tone: 'warn', title: 'Rolled back', mayFreeze: true });
  expect(learns.sentence).toContain('version 41 answers until the next rating is learned');
  const ofOlder = '88\u00a0% of the last 100 judged answers of version 41 and older ones were right.';
  expect(learns.others).toEqual([ofOlder]);
  const ofNumbers = wordVerdict({ ...health, measure: 'error', reasons: [ROLLED_BACK] });
  expect(ofNumbers.others[0]).toMatch(/^The mean error .* of version 41 and older ones is 0\.88\.$/);

  const frozen = { code: 'frozen', level: 'not_learning', sentence: '', figures: { reason: 'x' } };
  const reasons = [frozen as HealthReason, ROLLED_BACK];
  const stopped = wordVerdict({ ...health, status: 'not_learning', reasons });
  expect(stopped).toMatchObject({ tone: 'warn', mayFreeze: false, rolledBackTo: '41' });
  expect(stopped.sentence).toBe('version 41 answers. Learning is stopped.');

  const stuck = { ...frozen, code: 'learner_stopped' } as HealthReason;
  const broken = wordVerdict({ ...health, status: 'not_learning', reasons: [stuck, ROLLED_BACK] });
  expect(broken.title).toBe('Not learning');
});

test('after a roll back the verdict says whether it helped', () => {
  const health = { ...HEALTH, version: '41', recent: RECENT, status: 'good' } as Health;
  const figures = { ...ROLLED_BACK.figures, since: 950, count: 30, after: 0.966667 };
  const helped = 'Since the roll back: 29 of 30 judged answers right.';
  const reasons = [{ ...ROLLED_BACK, figures }];
  expect(wordVerdict({ ...health, reasons }).others[0]).toBe(helped);
  expect(wordVerdict({ ...health, status: 'needs_attention', reasons }).others).toContain(helped);
  const ofNumbers = wordVerdict({ ...health, measure: 'error', reasons });
  expect(ofNumbers.others[0]).toMatch(/^Since the roll back: mean error 0\.96/);
});

const RECOVERING: HealthReason = {
  code: 'recovering',
  level: 'notice',
  sentence: '',
  figures: { count: 30, after: 0.966667 },
};
const FELL: HealthReason = {
  code: 'accuracy_fell',
  level: 'notice',
  sentence: '',
  figures: { before: 0.94, after: 0.38, count: 100, since: 900 },
};
const HELPED = '29 of the 30 judged answers since the roll back were right.';
const REMAINS =
  'The last 100 judged answers still contain the fall since event 901: 38 of them were right; before, 94\u00a0%.';

test('good answers since a roll back are said first, and what the last 100 still contain below', () => {
  const health = { ...HEALTH, version: '52', recent: RECENT, status: 'good' } as Health;
  const verdict = wordVerdict({ ...health, reasons: [RECOVERING, FELL] });
  expect(verdict).toMatchObject({ tone: 'warn', title: 'Recovering', sentence: HELPED });
  expect(verdict).toMatchObject({ isRecovering: true, rollBackTo: null, mayFreeze: false });
  expect(verdict.others).toEqual([REMAINS]);

  const declining = wordVerdict({ ...health, reasons: [RECOVERING, DECLINING] });
  expect(declining).toMatchObject({ title: 'Recovering', isDeclining: false });
  expect(declining.others).toHaveLength(1);

  const numbers = { ...health, measure: 'error', reasons: [RECOVERING] } as Health;
  expect(wordVerdict(numbers).sentence).toMatch(/^the mean error of the 30 judged answers since/);

  const behind = { code: 'behind', level: 'not_learning', sentence: '', figures: {} } as const;
  const idle = wordVerdict({ ...health, status: 'not_learning', reasons: [behind, RECOVERING] });
  expect(idle).toMatchObject({ title: 'Not learning', isRecovering: false, others: [HELPED] });
});

test('while an older version answers, the last 100 are said to be of it and older ones', () => {
  const fall = { ...FELL, level: 'attention' } as HealthReason;
  const word = (more: Partial<Health>) =>
    wordVerdict({ ...HELD, status: 'needs_attention', reasons: [fall, ROLLED_BACK], ...more });
  expect(word({}).sentence).toContain(
    'only 38 of the last 100 judged answers of version 41 and older ones were right; before, 94',
  );
  expect(word({ newest_version: '41' }).sentence).toContain('last 100 judged answers were right');
});

test('as long as the last 100 are not all since the roll back, that is said', () => {
  const since = (count: number) => ({
    version: '41',
    since: 950,
    judged: { count, mean: 1, offset: 980 },
  });
  const word = (judged: number, reasons: HealthReason[] = [], more: Partial<Health> = {}) => {
    const live = { version: '52', newest_version: '52', recent: RECENT, status: 'good' } as const;
    return wordVerdict({
      ...HEALTH,
      ...live,
      last_roll_back: since(judged),
      reasons,
      ...more,
    });
  };
  const remain =
    'The last 100 judged answers still contain some from before the roll back: 88\u00a0% of the 100 were right.';
  expect(word(72, [RECOVERING])).toMatchObject({ title: 'Recovering', others: [remain] });
  expect(word(29)).toMatchObject({ title: 'Good', others: [remain] });
  expect(word(100).others).toEqual([]);
  expect(word(72, [RECOVERING, FELL]).others).toEqual([REMAINS]); // which says it too
  expect(word(72, [], { newest_version: '53' }).others).toEqual([]);
  expect(word(72, [], { measure: 'error' }).others[0]).toMatch(/their mean error is 0\.88\.$/);
});

test('errors that became more frequent are said in the past once that is over, or rolled back', () => {
  const drift = (code: string, offset: number, what = 'loss'): HealthReason => ({
    code,
    level: 'notice',
    sentence: '',
    figures: { since: 900, offset, what },
  });
  const rolledBack = { ...ROLLED_BACK, figures: { ...ROLLED_BACK.figures, since: 950 } };
  const word = (reason: HealthReason, ...others: HealthReason[]) =>
    wordVerdict({ ...HELD, status: 'good', reasons: [reason, ...others] }).others.at(-1);
  expect(word(drift('drift', 920))).toBe('Errors became more frequent since about event 900.');
  expect(word(drift('drift_over', 920))).toBe(
    'Errors were more frequent for a while from about event 900; they are as rare as before.',
  );
  expect(word(drift('drift', 920), rolledBack)).toBe(
    'Before the roll back, errors became more frequent from about event 900.',
  );
  expect(word(drift('drift', 970), rolledBack)).toContain('since about event 900');
  expect(word(drift('drift', 920, 'features'), rolledBack)).toContain('The inputs changed since');
});

test('too few answers since a roll back leave the fall first, and are counted below', () => {
  const last_roll_back = { version: '41', since: 950, judged: { count: 9, mean: 1, offset: 980 } };
  const health = { ...HEALTH, version: '52', recent: RECENT, last_roll_back } as Health;
  const reasons = [{ ...FELL, level: 'attention' } as HealthReason];
  const verdict = wordVerdict({ ...health, status: 'needs_attention', reasons });
  expect(verdict).toMatchObject({ tone: 'danger', title: 'Needs attention' });
  expect(verdict.others).toEqual(['Since the roll back: 9 of 9 judged answers right.']);
  expect(wordVerdict({ ...health, status: 'good', reasons: [] }).others).toEqual([]);
});

test('while learning is stopped after a roll back, answers of other versions are left out', () => {
  const health = { ...HEALTH, version: '41', recent: RECENT, status: 'not_learning' } as Health;
  const frozen = { code: 'frozen', level: 'not_learning', sentence: '', figures: {} } as const;
  const word = (figures: HealthReason['figures']) =>
    wordVerdict({
      ...health,
      reasons: [frozen, RECOVERING, FELL, DECLINING, { ...ROLLED_BACK, figures }],
    });
  expect(word({})).toMatchObject({ title: 'Rolled back', others: [] });
  const since = { count: 30, after: 0.9 };
  expect(word(since).others).toEqual(['Since the roll back: 27 of 30 judged answers right.']);
  expect(word({ count: 120, after: 0.9 }).others).toHaveLength(3);
});

test('a waiting time is said in its largest unit', () => {
  expect([45, 90, 150, 7_300, 200_000].map(duration)).toEqual([
    '45 seconds',
    '90 seconds',
    '3 minutes',
    '2 hours',
    '2 days',
  ]);
});

test('versions are shown page by page, and as many again after a refresh', async () => {
  const all = Array.from({ length: 30 }, (_, at) => ({ version: String(30 - at) }) as Version);
  const asked: [number, number | undefined][] = [];
  const list = new VersionList(async (limit, before) => {
    asked.push([limit, before]);
    const versions = all.filter(({ version }) => Number(version) < (before ?? 99)).slice(0, limit);
    const last = Number(versions.at(-1)!.version);
    return {
      versions,
      version_count: 30,
      next_before: last > 1 ? last : null,
      live_version: '28',
    } as VersionPage;
  });
  await list.refresh();
  expect([list.shown.length, list.count, list.live, list.hasMore]).toEqual([8, 30, '28', true]);
  await list.more();
  await list.refresh();
  await list.more();
  expect([list.shown.length, list.hasMore]).toEqual([24, true]);
  expect(asked).toEqual([
    [8, undefined],
    [8, 23],
    [16, undefined],
    [8, 15],
  ]);
  expect([isOlder('9', '28'), isOlder('29', '28'), isOlder('28', '28')]).toEqual([true, false, false]);
  const newer = { version: '29', learned_until: 90 } as Version;
  expect([isAhead(newer, '28', 80), isAhead(newer, '28', 90)]).toEqual([true, false]);
});

const DECLINING: HealthReason = {
  code: 'declining',
  level: 'notice',
  sentence: '',
  figures: { after: 0.82, count: 100, before: 0.91, before_count: 500 },
};

test('a model whose newest answers are worse than those before is not simply good', () => {
  const health = {
    ...HEALTH,
    version: '41',
    newest_version: '41',
    recent: RECENT,
    status: 'good',
  } as Health;
  const verdict = wordVerdict({ ...health, reasons: [DECLINING] });
  expect(verdict).toMatchObject({ tone: 'warn', title: 'Good, but falling', others: [] });
  expect(verdict.sentence).toBe('82\u00a0% of the last 100 judged answers were right, 91\u00a0% of the 500 before.');
  const numbers = { ...health, measure: 'error', reasons: [DECLINING] } as Health;
  expect(wordVerdict(numbers).title).toBe('Good, but with growing errors');

  const rolledBack = wordVerdict({ ...health, reasons: [DECLINING, ROLLED_BACK] });
  expect(rolledBack).toMatchObject({ title: 'Rolled back', isDeclining: false });
  expect(rolledBack.others).toEqual([verdict.sentence]);
});

test('the verdict words why the guard stopped learning as the controls do', () => {
  const figures = { since: '2026-11-21', reason: 'the guard: worse', cause: 'guard' };
  expect(word('frozen', { ...figures, cause_since: 700 })).toBe(
    'learning is stopped (the guard saw worse answers since event 700). Feedback is kept.',
  );
  expect(word('frozen', { since: '2026-11-21', reason: 'an odd day' })).toContain('(an odd day)');
});

test('an alarm of the event that a fall has begun is said with the fall only', () => {
  const figures = { before: 0.95, after: 0.69, count: 100, since: 1012, roll_back_to: '13' };
  const fall: HealthReason = { code: 'accuracy_fell', level: 'attention', sentence: '', figures };
  const drift = (since: number, what = 'loss'): HealthReason => ({
    code: 'drift',
    level: 'notice',
    sentence: '',
    figures: { since, what },
  });
  const health = { ...HEALTH, version: '41', recent: RECENT, status: 'needs_attention' } as Health;
  const others = (reason: HealthReason) => wordVerdict({ ...health, reasons: [fall, reason] }).others;
  expect(others(drift(1013))).toEqual([]);
  expect(others(drift(300))).toHaveLength(1);
  expect(others(drift(1013, 'features'))).toHaveLength(1);
  expect(wordVerdict({ ...health, reasons: [drift(1013)] }).others).toHaveLength(1);
});
