import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const service = 'http://127.0.0.1:8000';

export default defineConfig(({ mode }) => ({
  plugins: [svelte({ configFile: false })],
  // Relative, so that the service may show the page under any path; the API stays at /v1.
  base: './',
  build: { outDir: '../online/serving/static', emptyOutDir: true, modulePreload: { polyfill: false } },
  server: { proxy: { '/v1': service, '/healthz': service, '/readyz': service } },
  // Without this the tests would get Svelte's server build, where state does not react.
  resolve: mode === 'test' ? { conditions: ['browser'] } : {},
  test: { include: ['tests/**/*.test.ts'] },
}));
