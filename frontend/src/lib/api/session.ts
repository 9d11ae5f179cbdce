/* Who the page speaks for. */

import { call } from '../http';
import type { SessionAnswer } from '../schema';
import { LIMITED, V1 } from './model';

const SESSION = `${V1}/session`;
const OPTIONS = { isOfSession: true };

export type SessionApi = typeof sessionApi;
export const sessionApi = {
  load: () => call<SessionAnswer>('GET', SESSION, undefined, { ...LIMITED, ...OPTIONS }),
  /** key: an API key, or the admin key. */
  signIn: (key: string) => call<SessionAnswer>('POST', SESSION, { key }, OPTIONS),
  signOut: () => call<SessionAnswer>('DELETE', SESSION, undefined, OPTIONS),
};
