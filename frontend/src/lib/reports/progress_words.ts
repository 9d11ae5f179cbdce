/* The words for how far a replay, a report or an upload is. */

import { t } from '../messages';
import type { ReportProgress } from '../schema';
import { count, percent } from '../ui/wording';

const WAITING = 'waiting for its turn';
const REPLAYING = 'replaying it';

/** A time left, as precise as an estimate is: 8 seconds, 40 seconds, 3 min, 1 h 20 min. */
export function describeTime(seconds: number): string {
  const { progress } = t.reports;
  if (seconds < 10) return progress.seconds(Math.max(1, Math.ceil(seconds)));
  if (seconds < 55) return progress.seconds(Math.ceil(seconds / 5) * 5);
  const minutes = Math.max(1, Math.round(seconds / 60));
  if (minutes < 60) return progress.minutes(minutes);
  const rounded = Math.round(minutes / 5) * 5;
  return progress.hours(Math.floor(rounded / 60), rounded % 60);
}

/** "Replaying · 4,200 of about 10,000 events · 850 per second · about 10 seconds left" */
export function describeProgress({ what, ahead, done, total, per_second, left_s }: ReportProgress) {
  const { progress } = t.reports;
  if (what === WAITING) return progress.waiting(ahead ?? 0);
  const words = [progress.steps[what] ?? what];
  if (done && total) words.push(progress.events(count(done), count(roundTotal(total))));
  if (per_second) words.push(progress.perSecond(count(per_second)));
  if (left_s != null) words.push(progress.left(describeTime(left_s)));
  else if (what === REPLAYING) words.push(progress.estimating);
  return words.join(' · ');
}

/** Two digits of an estimate, so that it does not flicker: 10,437 -> 10,000. Small ones stay. */
function roundTotal(total: number): number {
  if (total < 1000) return total;
  const unit = 10 ** (Math.floor(Math.log10(total)) - 1);
  return Math.round(total / unit) * unit;
}

export function describeUpload(share: number, left_ms: number | null): string {
  const { progress, upload } = t.reports;
  if (share >= 1) return upload.writing;
  const sent = upload.sent(percent(share));
  return left_ms === null ? sent : `${sent} · ${progress.left(describeTime(left_ms / 1000))}`;
}
