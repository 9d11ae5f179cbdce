import { expect, test } from 'vitest';
import { tellApart } from '../../src/lib/learning/alerts.svelte';

test('endpoints of one host are numbered, and others keep their address', () => {
  const [slack, other] = ['https://hooks.slack.com/…', 'https://example.org/…'];
  const named = tellApart([slack, other, slack].map((endpoint) => ({ endpoint })));
  expect(named.map(({ name }) => name)).toEqual([`${slack} (1)`, other, `${slack} (2)`]);
});
