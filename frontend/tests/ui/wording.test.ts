import { afterEach, expect, test } from 'vitest';
import { loadMessages } from '../../src/lib/messages';
import { ago, amount, count, day, figure, instant, moment, percent, signed } from '../../src/lib/ui/wording';

afterEach(() => loadMessages('en'));

test('numbers are formatted with few digits', () => {
  expect([amount(12345), amount(0.97312), amount(undefined)]).toEqual(['12,345', '0.973', '–']);
  expect([figure(0), figure(3), figure(0.5), figure(1234.5)]).toEqual(['0', '3', '0.5', '1230']);
  expect([percent(0.934), percent(1)]).toEqual(['93\u00a0%', '100\u00a0%']);
  expect([signed(0.5), signed(-0.25)]).toEqual(['+0.50', '−0.25']);
});

test('a time of today is shown without the day', () => {
  const today = new Date(2026, 10, 21, 15);
  expect(moment(new Date(2026, 10, 21, 14, 3, 11).toISOString(), today)).toBe('14:03:11');
  expect(moment(new Date(2026, 10, 20, 14, 3, 11).toISOString(), today)).toBe('Nov 20, 14:03:11');
});

test.each([
  [0, 'just now'],
  [-90, 'just now'],
  [59, 'just now'],
  [60, '1 minute ago'],
  [3599, '59 minutes ago'],
  [3600, '1 hour ago'],
  [86_399, '23 hours ago'],
  [86_400, 'yesterday'],
  [29.9 * 86_400, '29 days ago'],
  [30 * 86_400, 'last month'],
  [364 * 86_400, '12 months ago'],
  [800 * 86_400, '2 years ago'],
])('%d seconds ago is “%s”', (seconds, words) => {
  const now = new Date('2026-11-21T12:00:00Z');
  expect(ago(new Date(now.getTime() - 1000 * seconds).toISOString(), now)).toBe(words);
});

test('an instant in full has its day, its second and its time zone', () => {
  const shown = instant(new Date(2026, 10, 21, 14, 3, 11).toISOString());
  expect(shown).toMatch(/^Saturday, November 21, 2026.* 2:03:11\sPM .+$/);
});

test('dates are written as the person writes the language of the page', async () => {
  const at = new Date(2026, 10, 25, 12).toISOString();
  expect(day(at)).toBe('November 25, 2026');
  await loadMessages('en', ['de-AT', 'en-GB', 'en-US']);
  expect(day(at)).toBe('25 November 2026');
  await loadMessages('de', ['en-GB']); // chosen on the page
  expect([day(at), count(12345)]).toEqual(['25. November 2026', '12.345']);
});
