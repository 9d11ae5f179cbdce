/* Builds the package as it is published: dist/index.js. */

import { defineConfig } from 'vite';

export default defineConfig({
  root: 'packages/secure-aggregation', // from the folder frontend
  build: {
    target: 'es2022',
    lib: { entry: { index: 'src/index.ts' }, formats: ['es'] },
  },
});
