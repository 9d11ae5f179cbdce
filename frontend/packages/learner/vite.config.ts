/* Builds the package as it is published: dist/index.js, dist/worker.js and the script of its worker. */

import { defineConfig, type Plugin } from 'vite';

const SOURCE = "new URL('./worker_script.ts', import.meta.url)";
const PUBLISHED = "new URL(/* @vite-ignore */ './worker_script.js', import.meta.url)";

/** Leaves the address of the worker's script in a form that the bundlers of other projects find, too. */
const address: Plugin = {
  name: 'address',
  enforce: 'pre',
  transform(code, id) {
    if (!id.endsWith('/worker.ts')) return null;
    if (!code.includes(SOURCE)) throw new Error(`worker.ts does not contain ${SOURCE}`);
    return code.replace(SOURCE, PUBLISHED);
  },
};

export default defineConfig({
  root: 'packages/learner', // from the folder frontend
  plugins: [address],
  build: {
    target: 'es2022',
    lib: {
      entry: {
        index: 'src/index.ts',
        worker: 'src/worker.ts',
        worker_script: 'src/worker_script.ts',
      },
      formats: ['es'],
    },
    rollupOptions: { output: { chunkFileNames: '[name].js' } },
  },
});
