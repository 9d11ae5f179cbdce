import { expect, test } from 'vitest';
import { Confirmation } from '../../src/lib/ui/confirmation.svelte';
import { Toasts } from '../../src/lib/ui/toasts.svelte';

test('a toast is taken back once, and the newest three are shown', () => {
  const toasts = new Toasts();
  let undone = 0;
  for (const name of ['a', 'b', 'c', 'd']) toasts.add(name, { undo: () => (undone += 1) });
  expect(toasts.shown.map(({ text }) => text)).toEqual(['b', 'c', 'd']);
  toasts.undo(toasts.shown[0]!);
  expect(undone).toBe(1);
  expect(toasts.shown.map(({ text }) => text)).toEqual(['c', 'd']);
});

test('a confirmation is refused where another one takes its place', async () => {
  const confirmation = new Confirmation();
  const request = { title: 'Delete it?', text: 'It is gone then.', action: 'Delete' };
  const [first, second] = [confirmation.ask(request), confirmation.ask(request)];
  confirmation.settle(true);
  expect(await first).toBe(false);
  expect(await second).toBe(true);
  expect(confirmation.request).toBeNull();
});
