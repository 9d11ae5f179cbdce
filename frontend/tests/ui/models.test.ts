import { expect, test } from 'vitest';
import { isChatModel, isDrawingModel, Models } from '../../src/lib/ui/models.svelte';
import type { ModelCard } from '../../src/lib/schema';

const card = (id: string, task: ModelCard['task']): ModelCard => ({
  id,
  task,
  kind: 'any',
  object: 'model',
  created: 0,
  owned_by: 'online',
  input: 'text',
  size: 0,
  fallback: '',
  share_sums: false,
});

test('the models are requested once for all callers', async () => {
  let requests = 0;
  const models = new Models(
    async () => {
      requests += 1;
      return [card('desk', 'classification'), card('bot', 'ranking')];
    },
    async () => {},
  );
  expect(await Promise.all([models.first(isChatModel), models.first(isChatModel)])).toEqual(['bot', 'bot']);
  expect([requests, models.cards?.length]).toEqual([1, 2]);
});

test('the list of models is requested again after a pause', async () => {
  let requests = 0;
  const pauses: number[] = [];
  const models = new Models(
    async () => {
      requests += 1;
      if (requests < 3) throw new Error('starting');
      return [card('bot', 'ranking')];
    },
    async (ms) => void pauses.push(ms),
  );
  expect(await models.first(isChatModel)).toBe('bot');
  expect(pauses).toEqual([3000, 3000]);
});

test('a service without a suitable model gives an error', async () => {
  const models = new Models(
    async () => [card('desk', 'classification')],
    async () => {},
  );
  await expect(models.first(isChatModel)).rejects.toThrow('no suitable model');
});

test('a drawing model is a classifier of 64 numbers', () => {
  const digits: ModelCard = { ...card('digits', 'classification'), input: 'vector', size: 64 };
  expect(isDrawingModel(digits)).toBe(true);
  expect(isDrawingModel({ ...digits, task: 'regression' })).toBe(false);
  expect(isDrawingModel({ ...digits, size: 30 })).toBe(false);
  expect(isDrawingModel({ ...digits, input: 'table' })).toBe(false);
});
