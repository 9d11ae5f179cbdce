/* The service worker: the page's shell stands where the service cannot be reached. Answers of the service are never kept.

   a page of ours        the service's, or the kept one where it does not answer
   a file of the build   the kept one, whose name says what is in it, or the service's
   anything else         none of its business: /v1, reports, the docs

   A build is kept whole, under its own name, and takes over when no page of the build before it is open any more.
*/

/** Put in by the build. files: of the shell. pages: addresses at which it is shown. */
declare const SHELL: { version: string; files: string[]; pages: string[] };

// What TypeScript's DOM does not know of service workers, as far as it is used here.
interface LifeEvent extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface AskedEvent extends Event {
  request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface Worker {
  registration: { scope: string };
  clients: { claim(): Promise<void> };
  addEventListener(type: 'install' | 'activate', hear: (event: LifeEvent) => void): void;
  addEventListener(type: 'fetch', hear: (event: AskedEvent) => void): void;
}

const worker = self as unknown as Worker;
const OURS = 'online-shell-';
const shell = SHELL;
const CACHE = OURS + shell.version;
const here = (path: string) => new URL(path, worker.registration.scope).href;
const files = new Set(shell.files.map(here));
const pages = new Set(shell.pages.map(here));

worker.addEventListener('install', (event) => event.waitUntil(keep()));
worker.addEventListener('activate', (event) => event.waitUntil(takeOver()));
worker.addEventListener('fetch', (event) => {
  const { method, mode, url } = event.request;
  if (method !== 'GET') return;
  const { origin, pathname } = new URL(url);
  const address = origin + pathname;
  if (mode === 'navigate' && pages.has(address)) event.respondWith(page(event.request));
  else if (files.has(address)) event.respondWith(file(event.request));
});

async function keep() {
  const cache = await caches.open(CACHE);
  await cache.addAll([here('./'), ...files].map((url) => new Request(url, { cache: 'no-cache' })));
}

async function takeOver() {
  const old = (await caches.keys()).filter((name) => name.startsWith(OURS) && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await worker.clients.claim();
}

async function page(request: Request): Promise<Response> {
  const answer = await fetch(request).catch(() => null);
  if (answer && answer.status < 500) return answer; // above that it is a proxy that speaks
  return (await kept(here('./'))) ?? answer ?? Response.error();
}

const file = async (request: Request) => (await kept(request.url)) ?? fetch(request);
const kept = async (url: string) => (await caches.open(CACHE)).match(url);
