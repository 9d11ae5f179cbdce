import { expect, test } from 'vitest';
import { coalesce } from '../../src/lib/ui/coalesce';
import { settle } from '../fake';

test('triggers during a call or its pause share the next call', async () => {
  let calls = 0;
  let endRest = () => {};
  const rest = () => new Promise<void>((resolve) => (endRest = resolve));
  const trigger = coalesce(async () => void (calls += 1), rest, 500);
  for (let news = 0; news < 5; news += 1) trigger();
  await settle();
  expect(calls).toBe(1);
  endRest();
  await settle();
  expect(calls).toBe(2);
  endRest();
  await settle();
  expect(calls).toBe(2);
  trigger();
  await settle();
  expect(calls).toBe(3);
});
