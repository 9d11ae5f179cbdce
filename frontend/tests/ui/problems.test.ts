import { afterEach, expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import { loadMessages } from '../../src/lib/messages';
import { detailOf, problemOf } from '../../src/lib/ui/problems';

const RAW = 'instance 0 has 8999 characters; shorten it to at most 8000 (max_text_chars)';

afterEach(() => loadMessages('en'));

test('a text that is too long is told with both lengths, in the language of the person', async () => {
  const error = new ApiError(RAW, 413, null, { given: 8999, limit: 8000 });
  expect(problemOf(error)).toBe('Too long: 8,999 of 8,000 characters.');
  await loadMessages('de');
  expect(problemOf(error)).toBe('Zu lang: 8.999 von 8.000 Zeichen.');
});

test.each([0, 400, 401, 403, 404, 409, 413, 418, 429, 500, 502, 503, 507])(
  'status %i becomes a sentence without the words of the API',
  (status) => {
    const problem = problemOf(new ApiError(RAW, status));
    expect(problem).toMatch(/^[A-Z].*\.$/);
    expect(problem).not.toContain('instance 0');
  },
);

test('a limit of requests says when to try again', () => {
  expect(problemOf(new ApiError('slow down', 429, 12))).toContain('in 12 seconds');
});

test('operators see what the API says', () => {
  expect(detailOf(new ApiError(RAW, 413))).toBe(RAW);
  expect(detailOf(new ApiError('', 0))).toContain('does not answer');
});
