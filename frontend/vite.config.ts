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
const ON_DEMAND = /^assets\/(encoder_worker|onnxruntime)-/; // the text encoder, which few people choose

async function hash(content: Uint8Array<ArrayBuffer>): Promise<string> {
  const sha256 = new Uint8Array(await crypto.subtle.digest('SHA-256', content));
  return [...sha256].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

const RUNTIME = 'virtual:onnx-runtime';
const WASM = 'node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm';
const WASM_ADDRESS = 'new URL("ort-wasm-simd-threaded.wasm",import.meta.url).href';

/** Gives the service worker the list of the shell's files. A hash of their names and of the page is the version. */
const shell: Plugin = {
  name: 'shell',
  enforce: 'post',
  generateBundle: {
    order: 'post',
    async handler(_, bundle) {
      const worker = bundle[WORKER];
      const page = bundle['index.html'];
      if (worker?.type !== 'chunk' || page?.type !== 'asset') throw new Error('the build has no worker or no page');
      const assets = Object.keys(bundle).filter((name) => name.startsWith('assets/'));
      const files = [...assets.filter((name) => !ON_DEMAND.test(name)), ...PUBLIC].sort();
      const pages = PAGES.map((name) => (name === 'chat' ? './' : name));
      const content = JSON.stringify([files, pages, String(page.source), worker.code]);
      const version = (await hash(new TextEncoder().encode(content))).slice(0, 16);
      worker.code = worker.code.replace('SHELL', JSON.stringify({ version, files, pages }));
    },
  },
};

/** ONNX Runtime: 14 MB of WebAssembly, compressed to a quarter as one file that a page decompresses itself. So its size
    is known before it is loaded, and neither the wheel nor the browser holds more. */
const runtime: Plugin = {
  name: 'runtime',
  resolveId: (id) => (id === RUNTIME ? `\0${RUNTIME}` : null),
  async load(id) {
    if (id !== `\0${RUNTIME}`) return null;
    const source = gzipSync(await readFile(WASM), { level: 9 });
    const sha256 = await hash(source);
    const name = `assets/onnxruntime-${sha256.slice(0, 8)}.bin`; // the service has no addresses that end with .gz
    if (this.environment.mode === 'build') this.emitFile({ type: 'asset', fileName: name, source });
    return `export const runtime = ${JSON.stringify({ name, bytes: source.length, sha256 })};`;
  },
};

/** The worker brings the bytes of the WebAssembly itself: without its address in the script, they are no asset twice. */
const withoutAddress: Plugin = {
  name: 'without-address',
  enforce: 'pre',
  transform(code, id) {
    if (!id.includes('onnxruntime-web/dist/')) return null;
    if (!code.includes(WASM_ADDRESS)) throw new Error(`ONNX Runtime has no ${WASM_ADDRESS}`);
    return code.replaceAll(WASM_ADDRESS, '"brought by the worker"');
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
    const outputs = (Array.isArray(built) ? built : [built]).flatMap((each) => ('output' in each ? each.output : []));
    const [script, ...rest] = outputs;
    if (script?.type !== 'chunk' || rest.length > 0) throw new Error('the widget is not one script');
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
  return (isEntry && !id.endsWith('worker.ts')) || importers.some((one) => isInFirstView(one, modules, visited));
}

export default defineConfig(({ mode }) => ({
  plugins: [svelte({ configFile: false }), shell, runtime, swagger, widget, compression],
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
  worker: {
    format: 'es',
    plugins: () => [withoutAddress],
    rollupOptions: { output: { entryFileNames: 'assets/[name]-[hash].js' } },
  },
  server: {
    proxy: {
      '/v1': service,
      '/assets/onnxruntime': service,
      '/healthz': service,
      '/readyz': service,
    },
  },
  // The tests need Svelte's browser build: in its server build, state does not react.
  resolve: mode === 'test' ? { conditions: ['browser'] } : {},
  // files share their modules: importing them again for each file took two thirds of the processor time
  test: { include: ['tests/**/*.test.ts'], isolate: false },
}));
