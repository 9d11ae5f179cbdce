import { expect, test } from 'vitest';
import { actionFor, BINDINGS, type KeyPress } from '../../src/lib/chat/shortcuts';

const press = (key: string, more: Partial<KeyPress> = {}): KeyPress => ({
  key,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  repeat: false,
  ...more,
});

test.each([
  ['u', { do: 'rate', reward: 1 }],
  ['D', { do: 'rate', reward: 0 }],
  ['1', { do: 'choose', index: 0 }],
  ['2', { do: 'choose', index: 1 }],
  ['3', { do: 'choose', index: 2 }],
  ['t', { do: 'teach' }],
  ['z', { do: 'undo' }],
  ['r', { do: 'another' }],
  ['?', { do: 'help' }],
  ['/', { do: 'compose' }],
  ['Escape', { do: 'compose' }],
])('%s does %o', (key, action) => {
  expect(actionFor(press(key))).toEqual(action);
});

test('a key without a binding is ignored', () => {
  expect(actionFor(press('x'))).toBeNull();
  expect(actionFor(press('Enter'))).toBeNull();
});

test('with a modifier the key belongs to the browser', () => {
  for (const modifier of ['ctrlKey', 'metaKey', 'altKey'] as const)
    expect(actionFor(press('z', { [modifier]: true }))).toBeNull();
});

test('a key held down is one press', () => {
  expect(actionFor(press('u', { repeat: true }))).toBeNull();
});

test('no key has two meanings', () => {
  const keys = BINDINGS.flatMap((binding) => binding.keys);
  expect(new Set(keys).size).toBe(keys.length);
});
