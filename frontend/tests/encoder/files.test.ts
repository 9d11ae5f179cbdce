import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/api';
import { ADDRESS, openScene } from './scene';

const NETWORK = `${ADDRESS}/model.onnx`;
const never = new AbortController().signal;

test('files are kept with the bytes that were announced, and are not loaded again', async () => {
  const { files, wanted, service, caches } = await openScene();
  const seen: number[] = [];
  await files().complete(wanted, never, (count) => seen.push(count));
  expect(seen.at(-1)).toBe(wanted.reduce((sum, { bytes }) => sum + bytes, 0));
  expect(seen).toEqual([...seen].sort((one, other) => one - other));
  expect(caches.kept).toEqual(wanted.map(({ address }) => address));
  service.requests = [];
  await files().complete(wanted, never, () => {});
  expect(service.requests).toEqual([]);
});

test('a download that was interrupted goes on where it stopped', async () => {
  const { files, wanted, service } = await openScene();
  const kept = files();
  service.isCut = true;
  await expect(kept.complete(wanted, never, () => {})).rejects.toBeInstanceOf(ApiError);
  service.requests = [];
  await kept.complete(wanted, never, () => {});
  expect(service.requests[0]).toEqual([NETWORK, 4]);
});

test('it starts again where the service sends whole files only', async () => {
  const { files, wanted, service, caches } = await openScene();
  const kept = files();
  [service.isCut, service.sendsParts] = [true, false];
  await expect(kept.complete(wanted, never, () => {})).rejects.toBeInstanceOf(ApiError);
  await kept.complete(wanted, never, () => {});
  expect(caches.kept).toContain(NETWORK);
});

test('a file that is not as announced is not kept, and is loaded as a whole the next time', async () => {
  const { files, wanted, service, caches } = await openScene();
  const kept = files();
  const right = service.contents.get(NETWORK)!;
  service.contents.set(NETWORK, new TextEncoder().encode('a virus!!'));
  const loading = kept.complete(wanted, never, () => {});
  await expect(loading).rejects.toMatchObject({ name: 'DamagedFile' });
  expect(caches.kept).toEqual([]);
  service.contents.set(NETWORK, right);
  service.requests = [];
  await kept.complete(wanted, never, () => {});
  expect(service.requests[0]).toEqual([NETWORK, 0]);
});

test('files of an earlier build are deleted once those of this build are there', async () => {
  const { files, wanted, caches } = await openScene();
  await (await caches.open('encoder')).put('https://service/assets/old.bin', new Response('old'));
  await files().complete(wanted, never, () => {});
  expect(caches.kept).toEqual(wanted.map(({ address }) => address));
});
