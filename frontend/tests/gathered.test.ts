import { expect, test } from 'vitest';
import { gathered } from '../src/lib/gathered';
import { settle } from './fake';

test('what is asked for while a question is out, or rests, shares the next one', async () => {
  let asked = 0;
  let endRest = () => {};
  const rest = () => new Promise<void>((resolve) => (endRest = resolve));
  const ask = gathered(async () => void (asked += 1), rest, 500);
  for (let news = 0; news < 5; news += 1) ask();
  await settle();
  expect(asked).toBe(1);
  endRest();
  await settle();
  expect(asked).toBe(2);
  endRest();
  await settle();
  expect(asked).toBe(2);
  ask();
  await settle();
  expect(asked).toBe(3);
});
