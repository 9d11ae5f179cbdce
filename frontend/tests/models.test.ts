import { expect, test } from 'vitest';
import { chats, Models } from '../src/lib/models.svelte';
import type { ModelCard } from '../src/lib/schema';

const card = (id: string, kind: string): ModelCard => ({
  id,
  kind,
  object: 'model',
  created: 0,
  owned_by: 'online',
  input: 'text',
  size: 0,
});

test('the models are asked for once, whoever wants to know', async () => {
  let asked = 0;
  const models = new Models(
    async () => {
      asked += 1;
      return [card('labels', 'classifier'), card('bot', 'ranker')];
    },
    async () => {},
  );
  expect(await Promise.all([models.first(chats), models.first(chats)])).toEqual(['bot', 'bot']);
  expect([asked, models.cards?.length]).toEqual([1, 2]);
});

test('a service that does not answer yet is asked again after a pause', async () => {
  let asked = 0;
  const pauses: number[] = [];
  const models = new Models(
    async () => {
      asked += 1;
      if (asked < 3) throw new Error('starting');
      return [card('bot', 'ranker')];
    },
    async (ms) => void pauses.push(ms),
  );
  expect(await models.first(chats)).toBe('bot');
  expect(pauses).toEqual([3000, 3000]);
});

test('a service without such a model says so', async () => {
  const models = new Models(async () => [card('labels', 'classifier')], async () => {});
  await expect(models.first(chats)).rejects.toThrow('no such model');
});
