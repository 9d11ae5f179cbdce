import { gzipSync } from 'node:zlib';
import { build, type Rollup } from 'vite';
import { beforeAll, expect, test } from 'vitest';

const LARGEST_BYTES = 15_000; // compressed: what a page loads for a learner, of its entry and all that this imports

let chunks: Rollup.OutputChunk[] = [];

beforeAll(async () => {
  const built = await build({
    configFile: 'packages/learner/vite.config.ts',
    logLevel: 'silent',
    build: { write: false },
  });
  const outputs = (Array.isArray(built) ? built : [built]) as Rollup.RollupOutput[];
  chunks = outputs.flatMap(({ output }) => output.filter((each) => each.type === 'chunk'));
});

/** An entry and what it imports. */
function loadedWith(name: string): Rollup.OutputChunk[] {
  const chunk = chunks.find(({ fileName }) => fileName === name);
  if (!chunk) throw new Error(`the package has no ${name}`);
  return [chunk, ...chunk.imports.flatMap(loadedWith)];
}

test.each(['index.js', 'worker.js', 'worker_script.js'])('%s stays within its budget', (name) => {
  const code = loadedWith(name).map(({ code }) => code);
  const bytes = gzipSync(new TextEncoder().encode(code.join('\n')), { level: 9 }).length;
  expect(bytes).toBeGreaterThan(300);
  expect(bytes).toBeLessThanOrEqual(LARGEST_BYTES);
});

test('the package imports nothing but itself', () => {
  const names = chunks.map(({ fileName }) => fileName);
  expect(chunks.flatMap(({ imports }) => imports).filter((each) => !names.includes(each))).toEqual(
    [],
  );
});

test('the address of the worker is one that bundlers find', () => {
  expect(loadedWith('worker.js')[0]?.code).toMatch(
    /new Worker\(new URL\(\s*\/\* @vite-ignore \*\/\s*"\.\/worker_script\.js",\s*import\.meta\.url/,
  );
});
