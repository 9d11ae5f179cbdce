import { expect, test, vi } from 'vitest';
import { ApiError, FileTooLarge, isUnreachable, watchConnection } from '../src/lib/http';
import { sessionApi } from '../src/lib/api/session';
import { learnerDeltaApi, learnerFileApi, queueApi } from '../src/lib/api/offline';
import { createDrawApi } from '../src/lib/api/draw';

/** What a request fails with where the network answers this, and what is reported about the connection. */
async function requestTo(answer: Response) {
  const reports: boolean[] = [];
  watchConnection((answered) => reports.push(answered));
  vi.stubGlobal('fetch', async () => answer);
  const error: unknown = await createDrawApi('digits')
    .status()
    .catch((problem: unknown) => problem);
  vi.unstubAllGlobals();
  return { error: error as ApiError, reports };
}

test.each([502, 503, 504])('the error page of a proxy is no answer: %d', async (status) => {
  const { error, reports } = await requestTo(new Response('<h1>Bad Gateway</h1>', { status }));
  expect([isUnreachable(error), reports]).toEqual([true, [false]]);
});

test.each([
  ['120', 120],
  ['Thu, 26 Nov 2026 12:00:00 GMT', null],
  ['', null],
] as const)('a Retry-After of "%s" is understood as %s seconds', async (header, seconds) => {
  const headers = { 'retry-after': header };
  const { error } = await requestTo(Response.json({ error: 'no' }, { status: 429, headers }));
  expect(error.retryAfter_s).toBe(seconds);
});

test.each([429, 503, 504])('an error of the service keeps its status: %d', async (status) => {
  const answer = Response.json({ error: 'not now' }, { status, headers: { 'retry-after': '7' } });
  const { error, reports } = await requestTo(answer);
  expect([error.status, error.message, error.retryAfter_s]).toEqual([status, 'not now', 7]);
  expect(reports).toEqual([true]);
});

test.each([
  ['give', () => queueApi.give('digits', { id: 'f1', label: 'star' })],
  ['retract', () => queueApi.retract('digits', 'f1')],
  ['outcome', () => queueApi.outcome('digits', 'f1')],
  ['who asks', () => sessionApi.load()],
] as const)('a request of the queue that hangs has no answer: %s', async (_, request) => {
  const reports: boolean[] = [];
  watchConnection((answered) => reports.push(answered));
  vi.spyOn(AbortSignal, 'timeout').mockReturnValue(AbortSignal.abort(new DOMException('', 'TimeoutError')));
  vi.stubGlobal('fetch', (_: string, { signal }: RequestInit) =>
    signal?.aborted ? Promise.reject(signal.reason as Error) : new Promise(() => {}),
  );
  const error: unknown = await request().catch((problem: unknown) => problem);
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  expect([isUnreachable(error), reports]).toEqual([true, [false]]);
});

test.each([
  ['file', () => learnerFileApi.exported('digits', '7', '', 100)],
  ['delta', () => learnerDeltaApi.changed('digits', '6', '7', 100)],
])('a %s that is too large is not read', async (_, load) => {
  const cancel = vi.fn();
  const headers = { 'content-length': '101', etag: '"7"' };
  const answer = new Response(new ReadableStream({ cancel }), { headers });
  vi.stubGlobal('fetch', async () => answer);
  const error: unknown = await load().catch((problem: unknown) => problem);
  vi.unstubAllGlobals();
  expect([error instanceof FileTooLarge, (error as FileTooLarge).etag]).toEqual([true, '"7"']);
  expect(cancel).toHaveBeenCalledTimes(1);
});
