/* Registers the service worker in production builds, after the page was loaded. */

export function registerServiceWorker() {
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  const start = () =>
    void register(navigator.serviceWorker).catch(() => {
      // in private windows or without https; the page works without it
    });
  if (document.readyState === 'complete') start();
  else addEventListener('load', start, { once: true });
}

async function register(workers: ServiceWorkerContainer) {
  await workers.register(new URL('./sw.js', document.baseURI));
  const { active } = await workers.ready;
  // A new worker claims the pages that are open. A page that was loading at that moment would stay without it.
  if (!workers.controller) active?.postMessage('claim');
}
