/* What a service answers is read again and again. */

import { expect, test } from 'vitest';
import { PolledAnswer } from '../../src/lib/ui/polled_answer.svelte';

test('the answer is read again until nobody watches, and stays shown while the service does not answer', async () => {
  let calls = 0;
  const api = { get: () => (++calls === 2 ? Promise.reject(new Error('down')) : Promise.resolve(calls)) };
  const seen: [number | null, boolean, number][] = [];
  const polled: PolledAnswer<number> = new PolledAnswer(api, 500, (ms) => {
    seen.push([polled.answer, polled.problem !== null, ms]);
    if (calls === 3) polled.stop();
    return Promise.resolve();
  });
  await polled.watch();
  expect(seen).toEqual([
    [1, false, 500],
    [1, true, 500],
    [3, false, 500],
  ]);
});
