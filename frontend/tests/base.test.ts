import { expect, test } from 'vitest';
import { folderOf } from '../src/lib/base';

test.each([
  ['http://host/', '/'],
  ['http://host/draw?model=digits', '/'],
  ['https://host/online/', '/online/'],
  ['https://host/a/b/learning#top', '/a/b/'],
])('the page at %s is served from the folder %s', (address, folder) => {
  expect(folderOf(address)).toBe(folder);
});
