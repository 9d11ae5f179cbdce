import { expect, test } from 'vitest';
import { Reach } from '../src/lib/reach.svelte';
import { settle } from './fake';

function open() {
  const service = { answers: false, asked: 0 };
  let end = () => {};
  const reach = new Reach(
    async () => {
      service.asked += 1;
      return service.answers;
    },
    () => new Promise<void>((resolve) => (end = resolve)),
  );
  const pass = async () => {
    end();
    await settle();
  };
  return { service, reach, pass };
}

test('a service that does not answer is asked until it does', async () => {
  const { service, reach, pass } = open();
  reach.heard(false);
  reach.heard(false);
  await settle();
  expect([reach.lost, service.asked]).toEqual([true, 1]);
  await pass();
  expect([reach.lost, service.asked]).toEqual([true, 2]);
  service.answers = true;
  await pass();
  expect(reach.lost).toBe(false);
  await pass();
  expect(service.asked).toBe(3);
});

test('a call that broke off while the service answers is nothing to speak of', async () => {
  const { service, reach } = open();
  service.answers = true;
  reach.heard(false);
  await settle();
  expect([reach.lost, service.asked]).toEqual([false, 1]);
});

test('an answer to anything says that it is back', async () => {
  const { reach } = open();
  reach.heard(false);
  await settle();
  reach.heard(true);
  expect(reach.lost).toBe(false);
});
