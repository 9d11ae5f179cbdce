/* The requests of a widget, and the visitor on whose behalf they are made.

   connect -> GET v1/session -> what the visitor may do, and for a new one a token
   send ----> with that token in a header; no cookie of another site is sent

   On pages of the service's own origin its cookie counts instead, and there is no token.
*/

import type { SessionAnswer } from '../src/lib/schema';
import type { Messages } from './messages';
import type { WidgetErrorCode } from './public_types';

const TIMEOUT_MS = 35_000;
const UNAUTHORIZED = 401;

export type Teaching = 'on' | 'review' | 'off';

/** A request that has failed. message: for the visitor; detail: for the console. */
export class ServiceError extends Error {
  constructor(
    readonly code: WidgetErrorCode,
    message: string,
    readonly detail = message,
    /** Of the answer; 0 without one. */
    readonly status = 0,
  ) {
    super(message);
  }
}

/** The path of a model in the service. */
export const pathOf = (model: string) => `v1/models/${encodeURIComponent(model)}`;

/** Where the token is kept: the storage of the page's origin, or nowhere where a browser forbids it. */
export interface TokenStore {
  load(): string | null;
  save(token: string): void;
}

export class Service {
  private token: string | null;
  private isNew = false;

  constructor(
    /** The address of the service, with a slash at its end. */
    readonly base: string,
    private t: Messages,
    private store: TokenStore,
    private origin: string,
    private request: typeof fetch = (...args) => fetch(...args),
  ) {
    this.token = store.load();
  }

  /** Say who the visitor is, and return how they may teach. Raises ServiceError. */
  async connect(): Promise<Teaching> {
    const session = await this.call<SessionAnswer>('GET', 'v1/session').catch(async (error: unknown) => {
      const isUnread = error instanceof ServiceError && error.status === 0;
      if (isUnread && (await this.isReachable())) throw this.refusedOrigin();
      throw error;
    });
    if (session.visitor_token) [this.token, this.isNew] = [session.visitor_token, true];
    if (!session.scopes.includes('predict') || !session.scopes.includes('feedback'))
      throw new ServiceError(
        'visitors',
        this.t.notAllowed,
        `${this.base} answers no visitors. Set public_teaching = "off", "review" or "on" there.`,
      );
    return teachingOf(session);
  }

  /** Make a request for the visitor. The token of a new one is kept from now on: not before the widget is used. */
  async send<T>(method: string, path: string, body?: object): Promise<T> {
    if (this.isNew && this.token !== null) {
      this.store.save(this.token);
      this.isNew = false;
    }
    try {
      return await this.call<T>(method, path, body);
    } catch (error) {
      if (!(error instanceof ServiceError) || error.status !== UNAUTHORIZED || this.token === null) throw error;
      this.token = null; // signed with a key that has been replaced
      await this.connect();
      if (this.token !== null) this.store.save(this.token);
      return await this.call<T>(method, path, body);
    }
  }

  private async call<T>(method: string, path: string, body?: object): Promise<T> {
    const response = await this.request(this.base + path, {
      method,
      cache: 'no-store',
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: {
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...(this.token === null ? {} : { 'x-visitor-token': this.token }),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    }).catch(() => {
      throw new ServiceError(
        'unreachable',
        this.t.unreachable,
        `${this.base} does not answer. If it runs, the Content-Security-Policy of this page may lack it in connect-src.`,
      );
    });
    const answer = (await response.json().catch(() => null)) as unknown;
    if (!response.ok || answer === null) throw this.refusal(response, answer);
    return answer as T;
  }

  private refusal({ status, headers }: Response, answer: unknown): ServiceError {
    const { t } = this;
    const { error, given, limit } = (answer ?? {}) as Record<string, unknown>;
    const sentence =
      typeof given === 'number' && typeof limit === 'number'
        ? t.tooLong(given, limit)
        : status === 429
          ? t.tooMany(Number(headers.get('retry-after')))
          : status >= 502 && status <= 504
            ? t.busy
            : status >= 500 || status === 200
              ? t.failed
              : status === 403
                ? t.notAllowed
                : t.invalid;
    const detail = typeof error === 'string' ? error : `the answer had the status ${status}`;
    return new ServiceError('refused', sentence, detail, status);
  }

  private refusedOrigin(): ServiceError {
    return new ServiceError(
      'origin',
      this.t.notAllowed,
      `${this.base} does not allow pages of ${this.origin} to show its chat. ` +
        `Add "${this.origin}" to its setting widget_origins.`,
    );
  }

  /** Whether the service answers, although this page may not read what. */
  private isReachable(): Promise<boolean> {
    return this.request(`${this.base}healthz`, { mode: 'no-cors', cache: 'no-store' }).then(
      () => true,
      () => false,
    );
  }
}

function teachingOf({ scopes, caller, public_teaching }: SessionAnswer): Teaching {
  if (scopes.includes('teach') || scopes.includes('curate')) return 'on';
  return caller.startsWith('visitor:') && public_teaching === 'review' ? 'review' : 'off';
}
