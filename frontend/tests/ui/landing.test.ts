import { expect, test } from 'vitest';
import type { ModelCard } from '../../src/lib/schema';
import { isInstalled, isServed, landingOf } from '../../src/lib/ui/landing';

const card = (given: Partial<ModelCard>) => given as ModelCard;
const CHAT = card({ id: 'chat', task: 'ranking' });
const DIGITS = card({ id: 'digits', task: 'classification', input: 'vector', size: 64 });
const TABLE = card({ id: 'prices', task: 'regression', input: 'table' });

test('a service with a chat opens on it', () => {
  expect(landingOf([TABLE, CHAT], true)).toBe('chat');
});

test('without a chat it opens on the drawing page, or for operators on the learning page', () => {
  expect(landingOf([TABLE, DIGITS], true)).toBe('draw');
  expect(landingOf([TABLE], true)).toBe('learning');
});

test('the chat and the drawing page are offered until the models are known, and then only with a model', () => {
  expect(isServed('chat', null)).toBe(true);
  expect(isServed('chat', [TABLE])).toBe(false);
  expect(isServed('draw', [CHAT])).toBe(false);
  expect(isServed('routes', [CHAT])).toBe(false);
  expect(isServed('routes', [CHAT, card({ id: 'router', task: 'routing' })])).toBe(true);
  expect(isServed('learning', [])).toBe(true);
});

test('a page is offered where the plugin that answers it is installed, or none is needed', () => {
  const session = { has: (plugin: string) => plugin === 'reports' };
  expect(isInstalled('reports', session)).toBe(true);
  expect(isInstalled('inbox', session)).toBe(false);
  expect(isInstalled('chat', session)).toBe(true);
});
