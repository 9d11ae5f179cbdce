import { expect, test } from 'vitest';
import { Connection } from '../../src/lib/ui/connection.svelte';
import { settle } from '../fake';

function open() {
  const service = { answers: false, pings: 0 };
  let end = () => {};
  const connection = new Connection(
    async () => {
      service.pings += 1;
      return service.answers;
    },
    () => new Promise<void>((resolve) => (end = resolve)),
  );
  const pass = async () => {
    end();
    await settle();
  };
  return { service, connection, pass };
}

test('a service that does not answer is pinged until it does', async () => {
  const { service, connection, pass } = open();
  connection.report(false);
  connection.report(false);
  await settle();
  expect([connection.lost, service.pings]).toEqual([true, 1]);
  await pass();
  expect([connection.lost, service.pings]).toEqual([true, 2]);
  service.answers = true;
  await pass();
  expect(connection.lost).toBe(false);
  await pass();
  expect(service.pings).toBe(3);
});

test('one failed call is not reported while the service answers', async () => {
  const { service, connection } = open();
  service.answers = true;
  connection.report(false);
  await settle();
  expect([connection.lost, service.pings]).toEqual([false, 1]);
});

test('any answer ends the loss of connection', async () => {
  const { connection } = open();
  connection.report(false);
  await settle();
  connection.report(true);
  expect(connection.lost).toBe(false);
});
