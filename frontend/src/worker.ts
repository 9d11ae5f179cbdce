/* The service worker: it serves the page's shell while the service cannot be reached. It never stores
   an answer of the API.

   request for a page        the service's answer; the stored page if there is none, or a 5xx of a proxy
   request for an asset      the stored file (its name contains its hash), else the service's; a page may have stored
                             assets that the shell does not need
   request for a shell file  such as the logo: the service's answer, else the stored file
   any other request         not handled: /v1, reports, documentation

   A build is stored as a whole under its own name, with the branding of the service. A new build, or a
   service with another branding, takes over when no page of the previous one is open.

   This is not vite-plugin-pwa: the worker that Workbox generates answers pages from its cache first, or
   shows the user a proxy's 5xx. Its other mode, injectManifest, would need the code below as well, and
   adds 300 packages to the build.
*/

/** Inserted by the build. files: the files of the shell. pages: the addresses that show it. */
declare const SHELL: { version: string; files: string[]; pages: string[] };
/** Written by the service before this code. Another branding makes it another worker, so browsers install it. */
interface Branding {
  version: string;
  files: string[];
}

// The parts of the service worker API used here; TypeScript's DOM library does not declare them.
interface LifecycleEvent extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface FetchEvent extends Event {
  request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface MessageToWorker extends MessageEvent {
  waitUntil(work: Promise<unknown>): void;
}
interface Worker {
  BRANDING?: Branding;
  registration: { scope: string };
  clients: { claim(): Promise<void> };
  addEventListener(type: 'install' | 'activate', listener: (event: LifecycleEvent) => void): void;
  addEventListener(type: 'fetch', listener: (event: FetchEvent) => void): void;
  addEventListener(type: 'message', listener: (event: MessageToWorker) => void): void;
}

const worker = self as unknown as Worker;
const { scope } = worker.registration;
// Caches belong to the origin, so the name contains the path prefix of this service.
const CACHE_PREFIX = `online-shell-${new URL(scope).pathname.slice(1)}`;
const shell = SHELL;
const branding = worker.BRANDING ?? { version: 'shipped', files: [] };
const CACHE = `${CACHE_PREFIX}${shell.version}-${branding.version}`;
const resolve = (path: string) => new URL(path, scope).href;
const files = new Set([...shell.files, ...branding.files].map(resolve));
const assets = resolve('assets/');
const pages = new Set(shell.pages.map(resolve));

worker.addEventListener('install', (event) => event.waitUntil(storeShell()));
worker.addEventListener('activate', (event) => event.waitUntil(dropOldBuilds()));
worker.addEventListener('message', (event) => {
  if (event.data === 'claim') event.waitUntil(worker.clients.claim());
});
worker.addEventListener('fetch', (event) => {
  const { method, mode, url } = event.request;
  if (method !== 'GET') return;
  const { origin, pathname } = new URL(url);
  const address = origin + pathname;
  if (mode === 'navigate' && pages.has(address)) event.respondWith(answerPage(event.request));
  else if (address.startsWith(assets)) event.respondWith(answerAsset(event.request));
  else if (files.has(address)) event.respondWith(answerFile(event.request));
});

async function storeShell() {
  const cache = await caches.open(CACHE);
  const urls = [resolve('./'), ...files];
  await cache.addAll(urls.map((url) => new Request(url, { cache: 'no-cache' })));
}

async function dropOldBuilds() {
  const old = (await caches.keys()).filter((name) => isOurs(name) && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await worker.clients.claim();
}

/** Whether a cache holds a build of this service, not of one under a longer prefix. */
const isOurs = (name: string) => name.startsWith(CACHE_PREFIX) && !name.slice(CACHE_PREFIX.length).includes('/');

async function answerPage(request: Request): Promise<Response> {
  const answer = await fetch(request).catch(() => null);
  if (answer && answer.status < 500) return answer;
  return (await stored(resolve('./'))) ?? answer ?? Response.error();
}

const answerAsset = async (request: Request) => (await caches.match(request.url)) ?? fetch(request);

async function answerFile(request: Request): Promise<Response> {
  const answer = await fetch(request).catch(() => null);
  if (answer?.ok) return answer;
  return (await stored(request.url)) ?? answer ?? Response.error();
}

const stored = async (url: string) => (await caches.open(CACHE)).match(url);
