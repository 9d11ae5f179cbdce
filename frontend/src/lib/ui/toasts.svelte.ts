/* Short notifications at the edge of the page, each with an undo where that is possible. */

import { untrack } from 'svelte';

export interface ToastOptions {
  /** Called where the person takes back what the toast tells. */
  undo?: () => unknown;
  tone?: 'plain' | 'problem';
}

export interface Toast extends ToastOptions {
  id: number;
  text: string;
}

const MAX_SHOWN = 3;

export class Toasts {
  shown = $state.raw<Toast[]>([]);

  private count = 0;

  /** An effect that adds one does not depend on those shown: otherwise it would run again, and add another. */
  add = (text: string, options: ToastOptions = {}): number => {
    const before = untrack(() => this.shown);
    const id = ++this.count;
    this.shown = [...before, { id, text, ...options }].slice(-MAX_SHOWN);
    return id;
  };

  dismiss(id: number) {
    this.shown = untrack(() => this.shown).filter((one) => one.id !== id);
  }

  undo(toast: Toast) {
    this.dismiss(toast.id);
    void toast.undo?.();
  }
}

/** The toasts of the page. */
export const toasts = new Toasts();
export const toast = toasts.add;
