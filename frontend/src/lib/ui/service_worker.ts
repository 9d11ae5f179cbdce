/* Registers the service worker in production builds, after the page was loaded. */

export function registerServiceWorker() {
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  const register = () =>
    void navigator.serviceWorker.register(new URL('./sw.js', document.baseURI)).catch(() => {
      // in private windows or without https; the page works without it
    });
  if (document.readyState === 'complete') register();
  else addEventListener('load', register, { once: true });
}
