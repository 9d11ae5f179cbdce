/* The keys of the inbox while no text field has the focus. The help dialog shows this table. */

import type { Messages } from '../messages/en';

export const KEYS = {
  j: 'next',
  k: 'previous',
  a: 'approve',
  m: 'merge',
  r: 'reply',
  x: 'reject',
  e: 'mine',
  z: 'undo',
  '?': 'help',
} as const satisfies Record<string, keyof Messages['inbox']['keys']>;

export type KeyAction = (typeof KEYS)[keyof typeof KEYS];

/** Those that only a chat has: they choose or write a reply. */
export const CHAT_ACTIONS: readonly KeyAction[] = ['merge', 'reply'];

type KeyPress = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'repeat'>;

/** Keys with a modifier belong to the browser. Only the steps through the list may be held down. */
export function keyActionFor({ key, ctrlKey, metaKey, altKey, repeat }: KeyPress): KeyAction | null {
  if (ctrlKey || metaKey || altKey) return null;
  const action = KEYS[key.toLowerCase() as keyof typeof KEYS] ?? null;
  return repeat && action !== 'next' && action !== 'previous' ? null : action;
}

/** The key of an action, as it is shown. */
export const keyOf = (action: KeyAction) =>
  Object.entries(KEYS)
    .find(([, one]) => one === action)?.[0]
    .toUpperCase() ?? '';
