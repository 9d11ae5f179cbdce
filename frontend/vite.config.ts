import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { build } from 'vite';
import { defineConfig } from 'vitest/config';
import { PAGES } from './src/lib/ui/pages.ts';

const service = 'http://127.0.0.1:8000';
const OUTPUT = '../online/api/static';
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

/** Swagger UI, for the documentation of the API. */
const swagger: Plugin = {
  name: 'swagger',
  async buildStart() {
    for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) {
      const source = await readFile(join('node_modules/swagger-ui-dist', name));
      this.emitFile({ type: 'asset', fileName: `docs/${name}`, source });
    }
  },
};

/** The chat on pages of other origins, as one classic script: it finds its own tag, and needs no second request. */
const widget: Plugin = {
  name: 'widget',
  apply: 'build',
  async buildStart() {
    const built = await build({
      configFile: false,
      logLevel: 'warn',
      publicDir: false,
      build: {
        write: false,
        lib: { entry: 'widget/widget.ts', formats: ['iife'], name: 'onlineWidget' },
      },
    });
    const outputs = (Array.isArray(built) ? built : [built]).flatMap((each) =>
      'output' in each ? each.output : [],
    );
    const [script, ...rest] = outputs;
    if (script?.type !== 'chunk' || rest.length > 0)
      throw new Error('the widget is not one script');
    this.emitFile({ type: 'asset', fileName: 'widget.js', source: script.code });
    const types = await readFile('widget/public_types.ts');
    this.emitFile({ type: 'asset', fileName: 'widget.d.ts', source: types });
  },
};

const TEXT = /\.(css|js|json|svg|txt)$/;
const RENDERED = [WORKER, 'favicon.svg']; // and others without such an ending: the service writes into them, and compresses them itself
const LARGE_BYTES = 500_000;
const LEAST_BYTES = 500; // a smaller file is one packet anyway

/** Writes a Brotli and a gzip file beside each text, once it is in the output folder. */
const compression: Plugin = {
  name: 'compression',
  apply: 'build',
  async closeBundle() {
    const names = await readdir(OUTPUT, { recursive: true });
    const texts = names.filter((name) => TEXT.test(name) && !RENDERED.includes(name));
    await Promise.all(texts.map((name) => compress(join(OUTPUT, name))));
  },
};

async function compress(path: string) {
  const text = await readFile(path);
  if (text.length < LEAST_BYTES) return;
  const params = {
    [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
    [constants.BROTLI_PARAM_QUALITY]: text.length < LARGE_BYTES ? 11 : 9, // the best one takes seconds for a large file
  };
  await writeFile(`${path}.br`, brotliCompressSync(text, { params }));
  await writeFile(`${path}.gz`, gzipSync(text, { level: 9 }));
}

/** What `getModuleInfo` tells: the modules that import a module, other than on demand. */
interface Modules {
  getModuleInfo(id: string): { isEntry: boolean; importers: readonly string[] } | null;
}

/** Whether a module is part of the first view: the page imports it, directly or not, and not on demand. */
function isInFirstView(id: string, modules: Modules, visited = new Set<string>()): boolean {
  if (visited.has(id)) return false;
  visited.add(id);
  const { isEntry, importers } = modules.getModuleInfo(id) ?? { isEntry: false, importers: [] };
  return (
    (isEntry && !id.endsWith('worker.ts')) ||
    importers.some((one) => isInFirstView(one, modules, visited))
  );
}

export default defineConfig(({ mode }) => ({
  plugins: [svelte({ configFile: false }), shell, swagger, widget, compression],
  // Relative, so that the service can show the page under any path prefix; see src/lib/base.ts.
  base: './',
  build: {
    outDir: OUTPUT,
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { index: 'index.html', sw: 'src/worker.ts' },
      output: {
        entryFileNames: ({ name }) => (name === 'sw' ? WORKER : 'assets/[name]-[hash].js'),
        // One script and one style sheet for the first view, whatever other pages share with it.
        advancedChunks: {
          groups: [{ name: (id, modules) => (isInFirstView(id, modules) ? 'page' : null) }],
        },
      },
    },
  },
  server: { proxy: { '/v1': service, '/healthz': service, '/readyz': service } },
  // The tests need Svelte's browser build: in its server build, state does not react.
  resolve: mode === 'test' ? { conditions: ['browser'] } : {},
  test: { include: ['tests/**/*.test.ts'] },
}));
