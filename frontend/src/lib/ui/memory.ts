/* What this browser remembers of the service, for a page that is opened without it: who the caller was, and which models
   there were. Only the service decides what a caller may do: what is remembered decides what the page offers. */

import type { Memory } from './session.svelte';

/** The part of `localStorage` that is used. It may be missing, or refuse. */
type Storage = Pick<globalThis.Storage, 'getItem' | 'setItem'>;

export function createMemory<T>(storage: Storage | null, key: string): Memory<T> {
  return {
    recall() {
      try {
        return JSON.parse(storage?.getItem(key) ?? 'null') as T | null;
      } catch {
        return null; // storage may be switched off, or hold something else
      }
    },
    remember(value) {
      try {
        storage?.setItem(key, JSON.stringify(value));
      } catch {
        // without storage, the page needs the service when it is opened
      }
    },
  };
}
