import { expect, test } from 'vitest';
import { describeProgress, describeTime, describeUpload } from '../../src/lib/reports/progress_words';
import { TimeLeft } from '../../src/lib/reports/time_left';

test('a time left is as precise as an estimate is', () => {
  expect([0.2, 7.4, 12, 41, 57, 200, 3_540, 5_000, 7_140].map(describeTime)).toEqual([
    '1 second',
    '8 seconds',
    '15 seconds',
    '45 seconds',
    '1 min',
    '3 min',
    '59 min',
    '1 h 25 min',
    '2 h',
  ]);
});

test('progress says what is done, how fast, and how long it takes', () => {
  const replaying = { what: 'replaying it', percent: 42, done: 4_200, total: 10_437 };
  expect(describeProgress({ ...replaying, per_second: 850.4, left_s: 9.1 })).toBe(
    'Replaying · 4,200 of about 10,000 events · 850 per second · about 10 seconds left',
  );
  expect(describeProgress(replaying)).toContain('estimating the time left');
  expect(describeProgress({ what: 'waiting for its turn', percent: 0, ahead: 2 })).toBe('Waiting: 2 come first');
  expect(describeProgress({ what: 'starting', percent: 0 })).toBe('Loading what replays the log');
});

test('the time left of an upload is steady', () => {
  const left = new TimeLeft();
  expect(left.see(0, 0)).toBe(null);
  expect(left.see(0.1, 500)).toBe(null); // too early to tell
  expect(left.see(0.2, 1_000)).toBeCloseTo(4_000);
  const burst = left.see(0.5, 1_100)!;
  expect(burst).toBeGreaterThan(1_000);
  expect(describeUpload(0.5, 4_000)).toBe('50\u00a0% sent · about 4 seconds left');
  expect(describeUpload(1, null)).toBe('Saving the file…');
});
