/* Texts in the browser's storage of the page's origin. Where it is forbidden, they last as long as the page. */

export interface Kept {
  load(): string | null;
  save(text: string): void;
  clear(): void;
}

export function keptIn(name: 'localStorage' | 'sessionStorage', key: string): Kept {
  let kept: string | null = null;
  const attempt = <T>(use: (storage: Storage) => T): T | undefined => {
    try {
      return use(window[name]);
    } catch {
      return undefined; // forbidden, or full
    }
  };
  return {
    load: () => attempt((storage) => storage.getItem(key)) ?? kept,
    save(text) {
      kept = text;
      attempt((storage) => storage.setItem(key, text));
    },
    clear() {
      kept = null;
      attempt((storage) => storage.removeItem(key));
    },
  };
}
