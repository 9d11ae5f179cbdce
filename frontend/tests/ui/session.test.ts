import { expect, test, vi } from 'vitest';
import { ApiError } from '../../src/lib/http';
import type { SessionAnswer } from '../../src/lib/schema';
import { Session } from '../../src/lib/ui/session.svelte';
import { settle } from '../fake';

const NOBODY: SessionAnswer = {
  caller: 'anonymous',
  scopes: [],
  is_signed_in: false,
  public_teaching: null,
  may_name_user: false,
  share_conversations: true,
  plugins: [],
};
const VISITOR: SessionAnswer = {
  ...NOBODY,
  caller: 'visitor:1f2e3d4c',
  scopes: ['predict', 'feedback'],
  public_teaching: 'review',
};
const CURATOR: SessionAnswer = {
  ...NOBODY,
  caller: 'key:ada: the curator',
  scopes: ['predict', 'feedback', 'curate'],
  is_signed_in: true,
};
const LOCAL: SessionAnswer = {
  ...NOBODY,
  caller: 'local',
  scopes: ['predict', 'feedback', 'teach', 'curate', 'operate', 'erase', 'keys', 'impersonate'],
  may_name_user: true,
};

function open(answer: SessionAnswer) {
  const api = {
    answer,
    load: vi.fn(async () => api.answer),
    signIn: vi.fn(async (_: string) => api.answer),
    signOut: vi.fn(async () => api.answer),
  };
  const restart = vi.fn();
  const browserId = vi.fn(() => 'browser');
  const forget = vi.fn(async (_: string) => {});
  const session = new Session({ api, pause: () => settle(), browserId, restart, forget });
  return { api, restart, forget, browserId, session };
}

async function load(answer: SessionAnswer) {
  const opened = open(answer);
  await opened.session.load();
  return opened;
}

const rights = ({ mayRate, mayTeach, mayCurate, mayOperate, teaching }: Session) => ({
  mayRate,
  mayTeach,
  mayCurate,
  mayOperate,
  teaching,
});

test('nothing is offered before the service has said who asks', () => {
  const { session } = open(LOCAL);
  expect(rights(session)).toEqual({
    mayRate: false,
    mayTeach: false,
    mayCurate: false,
    mayOperate: false,
    teaching: 'off',
  });
  expect([session.needsKey, session.canSignIn, session.name, session.user]).toEqual([false, false, null, undefined]);
});

test('this machine may do everything, names its user, and is not asked to sign in', async () => {
  const { session } = await load(LOCAL);
  expect(rights(session)).toEqual({
    mayRate: true,
    mayTeach: true,
    mayCurate: true,
    mayOperate: true,
    teaching: 'on',
  });
  expect([session.canSignIn, session.isSignedIn, session.name, session.user]).toEqual([false, false, null, 'browser']);
});

test('a visitor is known by a cookie alone, and may sign in', async () => {
  const { session, browserId } = await load(VISITOR);
  expect([session.user, session.name, session.canSignIn, session.needsKey]).toEqual([undefined, null, true, false]);
  expect(browserId).not.toHaveBeenCalled(); // no id is stored in the browser
});

test.each([
  ['review', 'review', ['predict', 'feedback']],
  ['off', 'off', ['predict', 'feedback']],
  ['on', 'on', ['predict', 'feedback', 'teach']],
] as const)('visitors may teach as the service says: %s', async (public_teaching, teaching, scopes) => {
  const { session } = await load({ ...VISITOR, public_teaching, scopes: [...scopes] });
  expect(session.teaching).toBe(teaching);
});

test('what visitors may teach does not hold for a key without the scope', async () => {
  const { session } = await load({
    ...VISITOR,
    caller: 'key:website',
    is_signed_in: true,
  });
  expect([session.teaching, session.name, session.canSignIn]).toEqual(['off', 'website', false]);
});

test('what a curator teaches is learned at once', async () => {
  const { session } = await load(CURATOR);
  expect([session.teaching, session.mayTeach, session.name]).toEqual(['on', false, 'ada: the curator']);
});

test('nobody without a key is asked for one before anything else is requested', async () => {
  const { api, session } = await load(NOBODY);
  let usable = false;
  void session.usable.then(() => (usable = true));
  await settle();
  expect([session.needsKey, session.canSignIn, usable]).toEqual([true, true, false]);
  api.answer = VISITOR;
  await session.load();
  await settle();
  expect([session.needsKey, usable]).toEqual([false, true]);
});

test('the service is asked until it answers, once for all callers', async () => {
  const { api, session } = open(VISITOR);
  api.load.mockRejectedValueOnce(new ApiError('starting', 503));
  await Promise.all([session.load(), session.load()]);
  expect(api.load).toHaveBeenCalledTimes(2);
  expect(session.mayRate).toBe(true);
});

test('who asks once learns why the service does not say', async () => {
  const { api, session } = open(VISITOR);
  api.load.mockRejectedValueOnce(new ApiError('slow down', 429, 34));
  await expect(session.confirm()).rejects.toThrow('slow down');
});

test('a session that ends by itself is noticed', async () => {
  const { api, session } = await load(CURATOR);
  api.answer = VISITOR;
  await session.load();
  expect([session.hasEnded, session.isSignedIn, session.mayCurate]).toEqual([true, false, false]);
});

test('signing in and out starts the page again, and the page keeps no key', async () => {
  const { api, restart, session } = await load(VISITOR);
  expect(await session.signIn('ok_secret')).toBe(true);
  expect(api.signIn).toHaveBeenCalledWith('ok_secret');
  expect(restart).toHaveBeenCalledTimes(1);
  expect(JSON.stringify(session)).not.toContain('secret');
  expect(await session.signOut()).toBe(true);
  expect(restart).toHaveBeenCalledTimes(2);
});

test('signing out deletes what is kept for the one who signs out, whoever it is then', async () => {
  const { api, forget, session } = await load(CURATOR);
  const { owner } = session;
  api.signOut.mockImplementationOnce(async () => {
    api.answer = VISITOR;
    await session.confirm(); // such as before an item is sent
    return VISITOR;
  });
  await session.signOut();
  expect(forget.mock.calls).toEqual([[owner]]);
});

test('the page starts again after signing out although nothing could be deleted', async () => {
  const { restart, forget, session } = await load(CURATOR);
  forget.mockRejectedValueOnce(new Error('the file is missing'));
  expect(await session.signOut()).toBe(true);
  expect(restart).toHaveBeenCalledTimes(1);
});

test.each([
  [
    new ApiError('the key is not valid', 401),
    'This key does not work. Check for missing characters; it may also have expired.',
  ],
  [new ApiError('slow down', 429, 34), 'Too many attempts. Try again in 34 seconds.'],
  [new ApiError('slow down', 429), 'Too many attempts. Try again later.'],
  [new ApiError('The server does not answer.'), 'The server does not answer. Try again in a moment.'],
])('a refusal to sign in is explained: %s', async (error, problem) => {
  const { api, restart, session } = await load(VISITOR);
  api.signIn.mockRejectedValueOnce(error);
  expect(await session.signIn('wrong')).toBe(false);
  expect([session.problem, session.busy]).toEqual([problem, false]);
  expect(restart).not.toHaveBeenCalled();
  session.openDialog();
  expect([session.problem, session.isDialogOpen]).toEqual([null, true]);
});

test('what another plugin would answer is known before it is asked for', async () => {
  const { session } = await load({ ...CURATOR, plugins: ['moderation'] });
  expect([session.has('moderation'), session.has('reports')]).toEqual([true, false]);
});

test('an answer that an older page has remembered has no plugins', async () => {
  const { plugins: _, ...older } = CURATOR;
  const { session } = await load(older as SessionAnswer);
  expect(session.has('moderation')).toBe(false);
});
