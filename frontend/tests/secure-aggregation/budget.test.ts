import { expect, test } from 'vitest';
import { BuiltPackage } from '../packages.js';

const LARGEST_BYTES = 6_000; // compressed

test('the package stays within its budget and imports nothing', async () => {
  const built = await BuiltPackage.build('../packages/online-federated/js');
  const bytes = built.measureBytes('index.js');
  expect(bytes).toBeGreaterThan(300);
  expect(bytes).toBeLessThanOrEqual(LARGEST_BYTES);
  expect(built.foreign).toEqual([]);
});
