import { expect, test } from 'vitest';
import { dollars } from '../../src/lib/ui/money';

test('amounts of money have as many digits as say something', () => {
  const shown = [0, 0.0000314, 0.00312, 0.05, 0.1, 0.42, 12.5, 1234.5, -0.42].map(dollars);
  expect(shown).toEqual(['$0', '$0.000031', '$0.0031', '$0.05', '$0.10', '$0.42', '$12.50', '$1,235', '-$0.42']);
});
