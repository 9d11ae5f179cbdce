/* Loads what the page needs without the service, once: it is no part of the first view. */

import { createContext } from 'svelte';
import type { OpenedOffline } from '../offline/opened.svelte';

export class OfflineLoader {
  /** null until it is loaded. */
  current = $state.raw<OpenedOffline | null>(null);

  private loading: Promise<OpenedOffline> | null = null;

  constructor(private open: () => Promise<OpenedOffline>) {}

  /** Rejects where the file cannot be loaded: the next call tries again. */
  load(): Promise<OpenedOffline> {
    this.loading ??= this.open().then(
      (opened) => (this.current = opened),
      (error: unknown) => {
        this.loading = null;
        throw error;
      },
    );
    return this.loading;
  }
}

/** The loader, for every component of the page. */
export const [getOffline, setOffline] = createContext<OfflineLoader>();
