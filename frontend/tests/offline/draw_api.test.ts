import { expect, test } from 'vitest';
import { type DrawApi } from '../../src/lib/api';
import { createOfflineDrawApi } from '../../src/lib/offline/draw_api';
import { LocalModel } from '../../src/lib/offline/local_model.svelte';
import type { Offline } from '../../src/lib/offline/offline.svelte';
import type { Guess, Taught, TaughtExample } from '../../src/lib/schema';
import { openBrowser } from './scene.svelte';

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
  const { browser, queue } = await openBrowser();
  const connection = { lost: false };
  const service = { taught: NOTHING };
  const kept = new Map<string, unknown>();
  let ids = 0;
  const offline = {
    queue,
    connection,
    newId: () => `l${++ids}`,
    remember: async (name: string, _: string, value: unknown) => void kept.set(name, value),
    recall: async (name: string) => kept.get(name) ?? null,
  } as unknown as Offline;
  const local = new LocalModel({
    model: 'digits',
    store: browser.store,
    queue,
    owner: () => 'ada',
    now: () => new Date('2026-11-26T12:00:00Z'),
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
    examples: async () => service.taught,
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
  return { api, service, connection, queue, name, list };
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
