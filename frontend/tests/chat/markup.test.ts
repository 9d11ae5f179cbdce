import { expect, test } from 'vitest';
import { hasMarkup } from '../../src/lib/chat/markup';

test.each([
  'We open at *nine*.',
  'Press **Enter** twice',
  'call `open()`',
  'first\n- one\n- two',
  '1. one',
  '# Hours',
  'see [the hours](https://example.org)',
  'see https://example.org',
  '<b>nine</b>',
])('%s has markup', (text) => {
  expect(hasMarkup(text)).toBe(true);
});

test.each([
  'We open at nine.',
  '2 * 3 * 4 = 24',
  'the file snake_case_name',
  'Nine - or ten, if 3 < 4 and 5 > 2.',
  'Room #3 (upstairs)',
  "It's 5 o'clock",
])('%s is plain text', (text) => {
  expect(hasMarkup(text)).toBe(false);
});
