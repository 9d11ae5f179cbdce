import { describe, expect, test } from 'vitest';
import { MESSAGES } from '../../widget/messages';
import { Service, ServiceError } from '../../widget/service';

const BASE = 'https://chat.example/';
const session = (fields = {}) => ({
  caller: 'visitor:1',
  scopes: ['predict', 'feedback'],
  public_teaching: 'review',
  visitor_token: null,
  ...fields,
});

type Handler = (path: string, init: RequestInit) => Response | Promise<Response>;
const answer = (content: unknown, status = 200, headers = {}) =>
  new Response(JSON.stringify(content), { status, headers });
const refuse = () => Promise.reject<Response>(new TypeError('Failed to fetch'));

function start(handle: Handler, stored: string | null = null) {
  const kept = { token: stored };
  const tokens: (string | null)[] = [];
  const store = { load: () => kept.token, save: (token: string) => void (kept.token = token) };
  const request = (async (url: string, init: RequestInit = {}) => {
    tokens.push(new Headers(init.headers).get('x-visitor-token'));
    return handle(url.slice(BASE.length), init);
  }) as typeof fetch;
  const service = new Service(BASE, MESSAGES.en, store, 'https://shop.example', request);
  return { service, kept, tokens };
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: unknown) => error as ServiceError,
  );

describe('a visitor', () => {
  test('gets a token, which is kept with the first question and not before', async () => {
    const { service, kept, tokens } = start((path) =>
      answer(path === 'v1/session' ? session({ visitor_token: 'new' }) : {}),
    );
    expect(await service.connect()).toBe('review');
    expect(kept.token).toBeNull();
    await service.send('POST', 'v1/models/chat:predict', {});
    expect([kept.token, tokens]).toEqual(['new', [null, 'new']]);
  });

  test('gets another token where the one it has is not accepted any more', async () => {
    const { service, kept, tokens } = start((path, { headers }) => {
      if (path === 'v1/session') return answer(session({ visitor_token: 'new' }));
      const token = new Headers(headers).get('x-visitor-token');
      return token === 'new' ? answer({}) : answer({ error: 'which visitor?' }, 401);
    }, 'old');
    await service.send('GET', 'v1/models/chat/feedback/1');
    expect([kept.token, tokens]).toEqual(['new', ['old', null, 'new']]);
  });

  test('is refused after one further attempt', async () => {
    const { service, tokens } = start((path) => (path === 'v1/session' ? answer(session()) : answer({}, 401)), 'old');
    expect((await failureOf(service.send('GET', 'x')))?.status).toBe(401);
    expect(tokens).toHaveLength(3);
  });

  test.each([
    [{ scopes: ['predict', 'feedback', 'teach'], public_teaching: 'on' }, 'on'],
    [{ public_teaching: 'off' }, 'off'],
    [{ caller: 'key:a' }, 'off'],
  ])('teaches as %j says', async (fields, teaching) => {
    expect(await start(() => answer(session(fields))).service.connect()).toBe(teaching);
  });
});

describe('a failure is told as what it is', () => {
  test('where the service answers other pages, this one is not allowed', async () => {
    const { service } = start((path) => (path === 'healthz' ? new Response() : refuse()));
    const failure = await failureOf(service.connect());
    expect([failure?.code, failure?.message]).toEqual(['origin', 'The chat is not available on this page.']);
    expect(failure?.detail).toContain('Add "https://shop.example" to its setting widget_origins');
  });

  test('where it answers nobody, it cannot be reached', async () => {
    expect((await failureOf(start(refuse).service.connect()))?.code).toBe('unreachable');
  });

  test('without visitors, it says what to set', async () => {
    const none = session({ caller: 'anonymous', scopes: [], public_teaching: null });
    const failure = await failureOf(start(() => answer(none)).service.connect());
    expect([failure?.code, failure?.detail.includes('public_teaching')]).toEqual(['visitors', true]);
  });

  test.each([
    [answer({}, 429, { 'retry-after': '9' }), 'Too many requests. Try again in 9 seconds.'],
    [answer({}, 429), 'Too many requests. Wait a moment and try again.'],
    [answer({ given: 9, limit: 8 }, 413), 'Too long: 9 of 8 characters.'],
    [answer({}, 503), 'The service is busy or starting. Try again in a moment.'],
    [answer({}, 500), 'Something went wrong on the server. Try again.'],
    [answer({}, 403), 'The chat is not available on this page.'],
    [answer({}, 400), 'This could not be accepted. Check what you entered.'],
    [new Response('<html>'), 'Something went wrong on the server. Try again.'],
  ])('in a sentence for the visitor: case %#', async (response, sentence) => {
    const failure = await failureOf(start(() => response).service.send('POST', 'x', {}));
    expect(failure?.message).toBe(sentence);
  });
});
