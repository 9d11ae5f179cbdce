import { beforeAll, expect, test } from 'vitest';
import { BuiltPackage } from '../packages.js';

const LARGEST_BYTES = 15_000; // compressed: what a page loads for a learner, of its entry and all that this imports

let built: BuiltPackage;

beforeAll(async () => {
  built = await BuiltPackage.build('packages/learner');
});

test.each(['index.js', 'worker.js', 'worker_script.js'])('%s stays within its budget', (name) => {
  expect(built.measureBytes(name)).toBeGreaterThan(300);
  expect(built.measureBytes(name)).toBeLessThanOrEqual(LARGEST_BYTES);
});

test('the package imports nothing but itself', () => {
  expect(built.foreign).toEqual([]);
});

test('the address of the worker is one that bundlers find', () => {
  expect(built.loadedWith('worker.js')[0]?.code).toMatch(
    /new Worker\(new URL\(\s*\/\* @vite-ignore \*\/\s*"\.\/worker_script\.js",\s*import\.meta\.url/,
  );
});
