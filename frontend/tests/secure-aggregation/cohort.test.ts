import { expect, test } from 'vitest';
import { CohortMember, UnexpectedAnswer } from '../../../packages/online-federated/js/src/index.js';
import { Scene, VALUES } from './scene.js';

// A cohort with a real service is in tests/packages/online_federated/test_aggregation_conformance.py.

const COHORT = {
  parameters: { classes: ['a'], max_examples: 3 },
  width: 0,
  features: {},
  segments: [[2, 12]],
};
const MEMBERSHIP = { number: 1, token: 'secret', context: btoa('cohort 1') };

const encode = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));

interface Sent {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: unknown;
}

/** A service that answers as the test says, and what it was sent. A string: the page of something else. */
function answering(...answers: (object | Error | string)[]) {
  const sent: Sent[] = [];
  const request = async (url: string, init: RequestInit) => {
    const answer = answers[sent.length]!;
    sent.push({
      url,
      method: init.method ?? '',
      headers: init.headers as Record<string, string>,
      body: init.body === undefined ? null : JSON.parse(init.body as string),
    });
    if (answer instanceof Error) throw answer;
    if (typeof answer === 'string') return new Response(answer);
    const { status = 200, ...content } = answer as { status?: number };
    return new Response(JSON.stringify(content), { status });
  };
  const address = {
    service: 'https://models.example',
    model: 'digits',
    id: 'abc',
    fetch: request as typeof fetch,
  };
  return { address, sent };
}

test('a refusal has the status and the reason of the service', async () => {
  const { address } = answering(COHORT, { status: 409, error: 'takes no further members' });
  await expect(CohortMember.join(address)).rejects.toMatchObject({
    name: 'AggregationFailed',
    status: 409,
    message: 'the service answered 409: takes no further members',
  });
});

test('who calls and for whom is sent with the request', async () => {
  const { address, sent } = answering(COHORT, MEMBERSHIP, { state: 'joining' });
  const headers = { Authorization: 'Bearer KEY' };
  const member = await CohortMember.join({ ...address, headers, user: 'ann & co' });
  expect(await member.advance(VALUES)).toEqual({ state: 'joining', reason: null });
  expect(sent.map(({ method, url }) => `${method} ${url.split('/cohorts/abc')[1]}`)).toEqual([
    'GET ',
    'POST /members?user=ann%20%26%20co',
    'GET /members/1',
  ]);
  expect(sent.every(({ headers }) => headers['Authorization'] === 'Bearer KEY')).toBe(true);
  expect(sent[2]?.headers['X-Cohort-Token']).toBe('secret');
});

test('a message whose answer was lost is sent again as it was, and then no more', async () => {
  const other = (await Scene.create(1)).keys.get(1)!;
  const lost = new TypeError('fetch failed');
  const seen: Record<string, unknown> = { state: 'sharing', threshold: 2, keys: {} };
  const { address, sent } = answering(
    COHORT,
    MEMBERSHIP,
    seen,
    lost,
    { state: 'sharing', threshold: 2, keys: null },
    { state: 'sharing' },
    seen,
  );
  const member = await CohortMember.join(address);
  const own = sent[1]?.body;
  seen['keys'] = { 1: own, 2: { sealing: encode(other.sealing), masking: encode(other.masking) } };
  await expect(member.advance(VALUES)).rejects.toBe(lost);
  await member.advance(VALUES);
  await member.advance(VALUES);
  expect(sent.map(({ method }) => method)).toEqual(['GET', 'POST', 'GET', 'PUT', 'GET', 'PUT', 'GET']);
  expect(sent[5]?.body).toEqual(sent[3]?.body);
});

test.each([
  ['no JSON', '<h1>Sign in to this network</h1>'],
  ['JSON without an object', 'null'],
  ['JSON without a state', { title: 'Sign in' }],
  ['a round without what it needs', { state: 'sharing', threshold: 2 }],
])('an answer that is %s is an error, and the request can be repeated', async (_, page) => {
  const { address } = answering(COHORT, MEMBERSHIP, page, { state: 'joining' });
  const member = await CohortMember.join(address);
  await expect(member.advance(VALUES)).rejects.toBeInstanceOf(UnexpectedAnswer);
  expect(await member.advance(VALUES)).toEqual({ state: 'joining', reason: null });
});

test('joining needs the cohort and a membership', async () => {
  const page = '<h1>Sign in to this network</h1>';
  await expect(CohortMember.join(answering(page).address)).rejects.toThrow(UnexpectedAnswer);
  const { address } = answering(COHORT, { number: 1 });
  await expect(CohortMember.join(address)).rejects.toThrow('POST was answered with JSON with the fields (number)');
});

test('more examples than a member may have, and shares that came too late, are refused', async () => {
  const masking = { state: 'masking', threshold: 2 };
  const late = answering(COHORT, MEMBERSHIP, masking);
  const member = await CohortMember.join(late.address);
  await expect(member.advance(VALUES)).rejects.toThrow('has dropped out');
  const many = answering(COHORT, MEMBERSHIP, { ...masking, sealed: {} });
  await expect((await CohortMember.join(many.address)).advance([3, 1])).rejects.toThrow(
    'of 4 examples, and a member of this cohort may have 3',
  );
});
