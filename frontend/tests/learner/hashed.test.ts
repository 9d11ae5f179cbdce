import { expect, test } from 'vitest';
import { hashed, hashText } from '../../packages/learner/src/index.js';

test('a text has the features that it has in the service', () => {
  const features = [...hashText('Where is my order?')];
  const most = Math.max(...features);
  const sum = features.reduce((total, each) => total + Math.abs(each), 0);
  expect([features.indexOf(most), most, sum]).toEqual([216, 127, 3297]);
});

test.each([
  ['Where is MY order?', 'where is my order'],
  ['Don’t', "don't"],
  ['ÄΩЯ', 'äωя'],
  ['a\ufe0fb', 'a b'],
])('%s has the features of %s', (one, other) => {
  expect(hashText(one)).toEqual(hashText(other));
});

test('letters of other planes are characters, not halves of them', () => {
  expect(hashText('😀')).not.toEqual(hashText('😁'));
  expect(hashText('\ud83d').some(Boolean)).toBe(true);
});

test('a text without words has no features', () => {
  expect(hashText('?! …').some(Boolean)).toBe(false);
});

test('it is an encoder with the name of its features', () => {
  expect(hashed.epoch).toBe('hashed-1-int8x512');
  expect(hashed.encode('hi')).toEqual(hashText('hi'));
});
