import { expect, test } from 'vitest';
import type { DrawApi } from '../../src/lib/api/draw';
import { createOfflineDrawApi } from '../../src/lib/offline/draw_api';
import type { Guess, Taught, TaughtExample } from '../../src/lib/schema';
import { openOffline } from './scene.svelte';

const DRAWING = [1, 2];
const NOTHING: Taught = { classes: [], rejected: [] };

const drawn = (id: string): TaughtExample => ({
  id,
  prediction_id: 'p1',
  input: DRAWING,
  status: 'learned',
  offset: 1,
  given_at: '2026-11-26T12:00:00Z',
});

/** A page without a version, and a service that lists what the test says. */
async function openPage({ mayTeach = true } = {}) {
  const { offline, caller, connection, identity } = await openOffline();
  const { queue } = offline;
  const service = { taught: NOTHING, onList: () => {} };
  const local = await offline.openModel({
    model: 'digits',
    mayKeep: () => false,
    read: () => ({
      learnedUntil: 0,
      learn: () => {},
      unlearn: () => {},
      guess: (): Guess => ({ label: null, probabilities: {} }),
    }),
    api: { exported: async () => null },
    isSimpler: () => false,
  });
  const online = {
    predict: async () => ({ predictions: [], prediction_ids: ['p1'], model_version: '1' }),
    giveFeedback: async ({ id }: { id: string }) => ({ id, offset: 1, status: 'accepted' }),
    examples: async () => {
      service.onList();
      return service.taught;
    },
    forgetClass: async () => {
      service.taught = NOTHING;
      return 1;
    },
  } as unknown as DrawApi;
  const api = createOfflineDrawApi(online, offline, local, () => mayTeach);
  const name = async () => {
    const { prediction_ids } = await api.predict({ instances: [DRAWING], record: true });
    await api.giveFeedback({ id: 'f1', prediction_id: prediction_ids[0]!, label: 'star' });
  };
  const list = async () => {
    const { classes } = await api.examples('user', 60);
    return classes.flatMap(({ label, examples }) => examples.map(({ id }) => [label, id]));
  };
  return { api, service, connection, caller, identity, queue, name, list };
}

test('a drawing that was taught just before the connection was lost is listed', async () => {
  const { connection, name, list } = await openPage();
  expect(await list()).toEqual([]);
  await name();
  connection.lost = true;
  expect(await list()).toEqual([['star', 'f1']]);
});

test('a drawing that the service lists no longer is not listed here either', async () => {
  const { api, service, connection, name, list } = await openPage();
  await name();
  const star = { label: 'star', active: true, held: 0, count: 1, examples: [drawn('f1')] };
  service.taught = { ...NOTHING, classes: [star] };
  expect(await list()).toEqual([['star', 'f1']]);
  await api.forgetClass('star');
  expect(await list()).toEqual([]);
  connection.lost = true;
  expect(await list()).toEqual([]);
});

test('without the right to teach, a drawing that only this device knows is not named', async () => {
  const { connection, queue, name } = await openPage({ mayTeach: false });
  connection.lost = true;
  await expect(name()).rejects.toThrow('The server does not answer.');
  expect(queue.items).toEqual([]);
});

test('the drawings of one account are not kept for, or listed to, the next one', async () => {
  const { service, connection, caller, list } = await openPage();
  const star = { label: 'star', active: true, held: 0, count: 1, examples: [drawn('f1')] };
  service.taught = { ...NOTHING, classes: [star] };
  service.onList = () => (caller.owner = 'bob'); // while the request of ada is on its way
  expect(await list()).toEqual([]);
  connection.lost = true;
  expect(await list()).toEqual([]);
  caller.owner = 'ada';
  expect(await list()).toEqual([]); // bob may have got them
});

test('what is listed after another tab has signed in is not kept for the account before', async () => {
  const { service, connection, caller, identity, list } = await openPage();
  const star = { label: 'star', active: true, held: 0, count: 1, examples: [drawn('f1')] };
  service.taught = { ...NOTHING, classes: [star] }; // of bob, who has signed in, as the page will learn
  identity.confirm = async () => void (caller.owner = 'bob');
  await list();
  caller.owner = 'ada';
  connection.lost = true;
  expect(await list()).toEqual([]);
});

test('a drawing that was listed is not an example of the next account', async () => {
  const { api, service, connection, caller, list } = await openPage();
  const star = { label: 'star', active: true, held: 0, count: 1, examples: [drawn('f1')] };
  service.taught = { ...NOTHING, classes: [star] };
  await list();
  caller.owner = 'bob';
  connection.lost = true;
  await expect(api.forgetClass('star')).rejects.toThrow('The server does not answer.');
});
