/* Keyboard shortcuts while no text field has the focus. The help dialog shows this table. */

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
  description: string;
}

export const BINDINGS: Binding[] = [
  { keys: ['u'], action: { do: 'rate', reward: 1 }, description: 'Good reply' },
  { keys: ['d'], action: { do: 'rate', reward: 0 }, description: 'Wrong reply' },
  { keys: ['1'], action: { do: 'choose', index: 0 }, description: 'Choose the first candidate' },
  { keys: ['2'], action: { do: 'choose', index: 1 }, description: 'Choose the second candidate' },
  { keys: ['3'], action: { do: 'choose', index: 2 }, description: 'Choose the third candidate' },
  { keys: ['t'], action: { do: 'teach' }, description: 'Teach the reply it should have given' },
  { keys: ['z'], action: { do: 'undo' }, description: 'Undo the last action' },
  { keys: ['r'], action: { do: 'another' }, description: 'Ask for another reply' },
  { keys: ['/', 'Escape'], action: { do: 'compose' }, description: 'Go to the question box' },
  { keys: ['?'], action: { do: 'help' }, description: 'Show the keyboard shortcuts' },
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

export function isTextField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches('textarea, input, select, [contenteditable]');
}
