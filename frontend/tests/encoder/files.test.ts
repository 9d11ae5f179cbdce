import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import { NotWanted } from '../../src/lib/encoder/files';
import { ADDRESS, openScene } from './scene';

const NETWORK = `${ADDRESS}/model.onnx`;
const never = new AbortController().signal;

test('files are kept with the bytes that were announced, and are not loaded again', async () => {
  const { files, wanted, service, caches } = await openScene();
  const seen: number[] = [];
  await files().want();
  await files().complete(wanted, [], never, (count) => seen.push(count));
  expect(seen.at(-1)).toBe(wanted.reduce((sum, { bytes }) => sum + bytes, 0));
  expect(seen).toEqual([...seen].sort((one, other) => one - other));
  expect(caches.kept).toEqual(wanted.map(({ address }) => address));
  service.requests = [];
  await files().complete(wanted, [], never, () => {});
  expect(service.requests).toEqual([]);
});

test('a download that was interrupted goes on where it stopped', async () => {
  const { files, wanted, service } = await openScene();
  const kept = files();
  await kept.want();
  service.isCut = true;
  await expect(kept.complete(wanted, [], never, () => {})).rejects.toBeInstanceOf(ApiError);
  service.requests = [];
  await kept.complete(wanted, [], never, () => {});
  expect(service.requests[0]).toEqual([NETWORK, 4]);
});

test('it starts again where the service sends whole files only', async () => {
  const { files, wanted, service, caches } = await openScene();
  const kept = files();
  await kept.want();
  [service.isCut, service.sendsParts] = [true, false];
  await expect(kept.complete(wanted, [], never, () => {})).rejects.toBeInstanceOf(ApiError);
  await kept.complete(wanted, [], never, () => {});
  expect(caches.kept).toContain(NETWORK);
});

test('a file that is not as announced is not kept, and is loaded as a whole the next time', async () => {
  const { files, wanted, service, caches } = await openScene();
  const kept = files();
  await kept.want();
  const right = service.contents.get(NETWORK)!;
  service.contents.set(NETWORK, new TextEncoder().encode('a virus!!'));
  const loading = kept.complete(wanted, [], never, () => {});
  await expect(loading).rejects.toMatchObject({ name: 'DamagedFile' });
  expect(caches.kept).toEqual([]);
  service.contents.set(NETWORK, right);
  service.requests = [];
  await kept.complete(wanted, [], never, () => {});
  expect(service.requests[0]).toEqual([NETWORK, 0]);
});

test('files of an earlier build are deleted once those of this build are there', async () => {
  const { files, wanted, caches } = await openScene();
  await (await caches.open('encoder')).put('https://service/assets/old.bin', new Response('old'));
  await files().complete(wanted, [], never, () => {});
  expect(caches.kept).toEqual(wanted.map(({ address }) => address));
});

test('the description that was noted stays', async () => {
  const { files, wanted, caches } = await openScene();
  await files().want();
  await files().note(ADDRESS, { epoch: 'letters' });
  await files().complete(wanted, [ADDRESS], never, () => {});
  expect(caches.kept).toContain(ADDRESS);
  expect(await files().read(ADDRESS)).toEqual({ epoch: 'letters' });
});

test('a stream that ends early is a lost connection, and the download goes on where it stopped', async () => {
  const { files, wanted, service } = await openScene();
  const kept = files();
  await kept.want();
  service.isShort = true;
  const loading = kept.complete(wanted, [], never, () => {});
  await expect(loading).rejects.toBeInstanceOf(ApiError);
  service.requests = [];
  await kept.complete(wanted, [], never, () => {});
  expect(service.requests[0]).toEqual([NETWORK, 4]);
});

test('a file that is shorter than announced is damaged once its rest brings nothing', async () => {
  const { files, wanted, service } = await openScene();
  const kept = files();
  await kept.want();
  service.contents.set(NETWORK, new TextEncoder().encode('a net'));
  const load = () => kept.complete(wanted, [], never, () => {});
  await expect(load()).rejects.toBeInstanceOf(ApiError);
  await expect(load()).rejects.toMatchObject({ name: 'DamagedFile' });
});

test('what another tab has deleted is not created again', async () => {
  const { files, wanted, service, caches } = await openScene();
  const kept = files();
  await kept.want();
  let answer: (value?: unknown) => void = () => {};
  service.gate = new Promise((resolve) => (answer = resolve));
  const loading = kept.complete(wanted, [], never, () => {});
  await expect.poll(() => service.requests.length).toBe(1);
  await files().delete();
  answer();
  await expect(loading).rejects.toBeInstanceOf(NotWanted);
  await expect(kept.read(ADDRESS)).rejects.toBeInstanceOf(NotWanted);
  await expect(kept.note(ADDRESS, {})).rejects.toBeInstanceOf(NotWanted);
  await expect(kept.empty()).rejects.toBeInstanceOf(NotWanted);
  expect([service.requests.length, caches.caches.size]).toEqual([1, 0]);
});
