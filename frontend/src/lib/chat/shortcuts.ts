/* Keyboard shortcuts while no text field has the focus. The help dialog shows this table. */

import type { Messages } from '../messages/en';

export type Action =
  | { do: 'rate'; reward: 0 | 1 }
  | { do: 'choose'; index: number }
  | { do: 'teach' }
  | { do: 'undo' }
  | { do: 'another' }
  | { do: 'help' }
  | { do: 'compose' };

interface Binding {
  keys: string[];
  action: Action;
  /** Names the sentence in the messages. */
  name: keyof Messages['chat']['keys'];
}

export const BINDINGS: Binding[] = [
  { keys: ['u'], action: { do: 'rate', reward: 1 }, name: 'good' },
  { keys: ['d'], action: { do: 'rate', reward: 0 }, name: 'wrong' },
  { keys: ['1'], action: { do: 'choose', index: 0 }, name: 'first' },
  { keys: ['2'], action: { do: 'choose', index: 1 }, name: 'second' },
  { keys: ['3'], action: { do: 'choose', index: 2 }, name: 'third' },
  { keys: ['t'], action: { do: 'teach' }, name: 'teach' },
  { keys: ['z'], action: { do: 'undo' }, name: 'undo' },
  { keys: ['r'], action: { do: 'another' }, name: 'another' },
  { keys: ['/', 'Escape'], action: { do: 'compose' }, name: 'compose' },
  { keys: ['?'], action: { do: 'help' }, name: 'help' },
];

export interface KeyPress {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  repeat: boolean;
}

export function actionFor({ key, ctrlKey, metaKey, altKey, repeat }: KeyPress): Action | null {
  // Keys with a modifier belong to the browser. A key held down counts once.
  if (ctrlKey || metaKey || altKey || repeat) return null;
  const wanted = key.length === 1 ? key.toLowerCase() : key;
  return BINDINGS.find(({ keys }) => keys.includes(wanted))?.action ?? null;
}

const TEXT_FIELDS = 'textarea, select, [contenteditable], input:not([type="checkbox"], [type="radio"])';

export function isTextField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches(TEXT_FIELDS);
}
