/* Turns errors into sentences for the person at the page. The API's own message is for programs and operators: `detailOf`. */

import { ApiError } from '../http';
import { t } from '../messages';
import { count } from './wording';

/** A sentence that says what happened and what to do. It never shows an answer of the API as it came. */
export function problemOf(error: unknown): string {
  if (!(error instanceof ApiError)) return t.ui.problems.failed;
  const { status, details, retryAfter_s } = error;
  const { problems } = t.ui;
  const { given, limit } = details;
  if (given !== undefined && limit !== undefined) return problems.tooLong(count(given), count(limit));
  if (status === 429 && retryAfter_s !== null) return problems.tooManyUntil(count(retryAfter_s));
  return sentences()[status] ?? (status >= 500 ? problems.failed : problems.invalid);
}

/** The API's message, for those who operate the service; the sentence of `problemOf` where there is none. */
export function detailOf(error: unknown): string {
  return error instanceof ApiError && error.status !== 0 ? error.message : problemOf(error);
}

const sentences = (): Record<number, string> => {
  const { problems } = t.ui;
  return {
    0: problems.noAnswer,
    401: problems.notSignedIn,
    403: problems.notAllowed,
    404: problems.notFound,
    409: problems.changed,
    410: problems.notFound,
    413: problems.tooLarge,
    429: problems.tooMany,
    502: problems.busy,
    503: problems.busy,
    504: problems.busy,
    507: problems.full,
  };
};
