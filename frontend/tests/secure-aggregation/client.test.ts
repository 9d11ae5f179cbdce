import { expect, test } from 'vitest';
import { AggregationFailed, checkSupport } from '../../../packages/online-federated/js/src/index.js';
import { LAYOUT, Scene, VALUES } from './scene.js';

async function masked(count = 5): Promise<Scene> {
  const scene = await Scene.create(count);
  await scene.share(...scene.keys.keys());
  for (const number of scene.keys.keys()) await scene.mask(number);
  return scene;
}

test('masked values differ for the same values', async () => {
  const [one, other] = [await Scene.create(2), await Scene.create(2)];
  await one.share(1, 2);
  await other.share(1, 2);
  expect(await one.mask(1)).not.toEqual(await other.mask(1));
});

test('a client reveals one secret of a member, and once', async () => {
  const client = (await masked()).client(1);
  const { maskingKeys, seeds } = client.unmask([1, 2, 3, 4]);
  expect([...maskingKeys.keys()]).toEqual([5]);
  expect([...seeds.keys()].sort()).toEqual([1, 2, 3, 4]);
  expect(() => client.unmask([1, 2, 3, 5])).toThrow('revealed once');
});

test.each([[[1, 2, 3]], [[2, 3, 4, 5]], [[1, 2, 3, 9]], [[]]])(
  'a client reveals nothing for the survivors %j',
  async (survivors) => {
    const client = (await masked()).client(1);
    expect(() => client.unmask(survivors)).toThrow('survive');
  },
);

test('a client reveals nothing before it has masked its values', async () => {
  const scene = await Scene.create(2);
  await scene.share(1, 2);
  expect(() => scene.client(1).unmask([1, 2])).toThrow('after the values were masked');
});

test('a client masks its values once, also while it still does', async () => {
  const scene = await Scene.create(2);
  await scene.share(1, 2);
  const first = scene.mask(1);
  await expect(scene.mask(1, [5, 5])).rejects.toThrow('masked once');
  expect((await first).length).toBe(LAYOUT.byteCount);
});

test('a client that could not mask its values reveals nothing', async () => {
  const scene = await Scene.create(2);
  await scene.share(1, 2);
  const changed = scene
    .sealedFor(1)
    .get(2)!
    .map((byte, at) => (at === 0 ? byte ^ 1 : byte));
  await expect(scene.client(1).mask(new Map([[2, changed]]), VALUES)).rejects.toThrow('changed');
  expect(() => scene.client(1).unmask([1, 2])).toThrow('after the values were masked');
});

test('values are masked with enough others only', async () => {
  const scene = await Scene.create(5);
  await scene.share(1, 2, 3);
  await expect(scene.mask(1)).rejects.toThrow('shares of 3 members came, and 4 are needed');
});

test('a share for another member or group is noticed', async () => {
  const scene = await Scene.create(3);
  await scene.share(1, 2, 3);
  const swapped = new Map([2, 3].map((sender) => [sender, scene.shared.get(sender)!.sealed.get(5 - sender)!]));
  await expect(scene.client(1).mask(swapped, VALUES)).rejects.toThrow('changed on its way');
});

test.each([0, 3, 6])('a threshold of %i of five members is refused', async (threshold) => {
  const scene = await Scene.create(5, threshold);
  await expect(scene.share(1)).rejects.toThrow('5 members need 4 or more');
});

test('members without this one, equal keys and keys of small order are refused', async () => {
  const scene = await Scene.create(3);
  await expect(scene.client(1).share(scene.group, 2, scene.keys)).rejects.toThrow('not among them');
  const second = scene.keys.get(2)!;
  scene.keys.set(3, second);
  await expect(scene.share(1)).rejects.toThrow('the same public key');
  scene.keys.set(3, {
    ...second,
    masking: new Uint8Array(32).fill(7),
    sealing: new Uint8Array(32),
  });
  await expect(scene.share(1)).rejects.toThrow(AggregationFailed);
});

test.each([
  [[1], 'the layout has 2'],
  [[1, 2048], 'more than 12 bits'],
  [[1, -2049], 'more than 12 bits'],
  [[1, 0.5], 'not an integer'],
  [[1, NaN], 'not an integer'],
])('the values %j are refused, and others can be masked then', async (values, reason) => {
  const scene = await Scene.create(2);
  await scene.share(1, 2);
  await expect(scene.mask(1, values)).rejects.toThrow(reason);
  await expect(scene.mask(1)).resolves.toBeInstanceOf(Uint8Array);
});

test('this runtime has what is needed', async () => {
  await expect(checkSupport()).resolves.toBeUndefined();
});
