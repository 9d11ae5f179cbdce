/* Has the service worker keep the shell: in a build alone, and once the page that was asked for is there. */

export function keepShell() {
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  const register = () =>
    navigator.serviceWorker.register(new URL('./sw.js', document.baseURI)).catch(() => {
      // private windows, or no certificate: the page works without it
    });
  if (document.readyState === 'complete') void register();
  else addEventListener('load', register, { once: true });
}
