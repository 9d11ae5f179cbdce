import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import { PAGES } from './src/lib/ui/pages.ts';

const service = 'http://127.0.0.1:8000';
const WORKER = 'sw.js'; // a fixed name, where a browser looks for a newer worker
const PUBLIC = ['favicon.svg', 'manifest.webmanifest', 'icon-192.png'];

/** Gives the service worker the list of the shell's files. A hash of their names and of the page is the version. */
const shell: Plugin = {
  name: 'shell',
  enforce: 'post',
  generateBundle: {
    order: 'post',
    async handler(_, bundle) {
      const worker = bundle[WORKER];
      const page = bundle['index.html'];
      if (worker?.type !== 'chunk' || page?.type !== 'asset')
        throw new Error('the build has no worker or no page');
      const files = [
        ...Object.keys(bundle).filter((name) => name.startsWith('assets/')),
        ...PUBLIC,
      ].sort();
      const pages = PAGES.map((name) => (name === 'chat' ? './' : name));
      const content = JSON.stringify([files, pages, String(page.source), worker.code]);
      const sha256 = new Uint8Array(
        await crypto.subtle.digest('SHA-256', new TextEncoder().encode(content)),
      );
      const version = [...sha256.slice(0, 8)]
        .map((byte) => byte.toString(16).padStart(2, '0'))
        .join('');
      worker.code = worker.code.replace('SHELL', JSON.stringify({ version, files, pages }));
    },
  },
};

export default defineConfig(({ mode }) => ({
  plugins: [svelte({ configFile: false }), shell],
  // Relative, so that the service can show the page under any path prefix; see src/lib/base.ts.
  base: './',
  build: {
    outDir: '../online/api/static',
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { index: 'index.html', sw: 'src/worker.ts' },
      output: {
        entryFileNames: ({ name }) => (name === 'sw' ? WORKER : 'assets/[name]-[hash].js'),
      },
    },
  },
  server: { proxy: { '/v1': service, '/healthz': service, '/readyz': service } },
  // The tests need Svelte's browser build: in its server build, state does not react.
  resolve: mode === 'test' ? { conditions: ['browser'] } : {},
  test: { include: ['tests/**/*.test.ts'] },
}));
