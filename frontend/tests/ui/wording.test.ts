import { expect, test } from 'vitest';
import { amount, figure, moment, percent, signed } from '../../src/lib/ui/wording';

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
