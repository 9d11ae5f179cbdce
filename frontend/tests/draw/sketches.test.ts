import { expect, test } from 'vitest';
import { Sketches } from '../../src/lib/draw/sketches';

class FakeStorage {
  private values = new Map<string, string>();
  getItem = (key: string) => this.values.get(key) ?? null;
  setItem = (key: string, value: string) => void this.values.set(key, value);
}

const line = [
  [
    { x: 10.2, y: 10 },
    { x: 10.4, y: 10.3 },
    { x: 40, y: 80.6 },
  ],
];
const packed = [
  [
    { x: 10, y: 10 },
    { x: 40, y: 81 },
  ],
];

test('a sketch is found after a reload, with fewer points', () => {
  const storage = new FakeStorage();
  new Sketches(storage).keep('f1', line);
  expect(new Sketches(storage).of('f1')).toEqual(packed);
  expect(new Sketches(storage).of('f2')).toBeNull();
});

test('a sketch is dropped, and gets a new id', () => {
  const storage = new FakeStorage();
  const sketches = new Sketches(storage);
  sketches.keep('f1', line);
  sketches.rename('f1', 'f2');
  sketches.rename('f9', 'f3');
  expect([sketches.of('f1'), new Sketches(storage).of('f2')]).toEqual([null, packed]);
  sketches.drop('f2');
  expect(new Sketches(storage).of('f2')).toBeNull();
});

test('only the newest sketches are kept', () => {
  const sketches = new Sketches(null);
  for (let place = 0; place < 151; place += 1) sketches.keep(`f${place}`, line);
  expect([sketches.of('f0'), sketches.of('f1')]).toEqual([null, packed]);
});

test.each(['nonsense', '{}', '[["f1", 7], 3, ["f2", [["a"]]]]'])(
  'a storage that holds %s holds no sketches',
  (content) => {
    const storage = new FakeStorage();
    storage.setItem('online.sketches', content);
    const sketches = new Sketches(storage);
    expect([sketches.of('f1'), sketches.of('f2')]).toEqual([null, null]);
  },
);

test('without storage, sketches last as long as the page', () => {
  const refuse = () => {
    throw new Error('switched off');
  };
  const sketches = new Sketches({ getItem: refuse, setItem: refuse });
  sketches.keep('f1', line);
  expect(sketches.of('f1')).toEqual(packed);
});
