/* Which key does what while no text field has the focus. The help on the page is this same table. */

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
  means: string;
}

export const BINDINGS: Binding[] = [
  { keys: ['u'], action: { do: 'rate', reward: 1 }, means: 'Good reply' },
  { keys: ['d'], action: { do: 'rate', reward: 0 }, means: 'Wrong reply' },
  { keys: ['1'], action: { do: 'choose', index: 0 }, means: 'Choose the first candidate' },
  { keys: ['2'], action: { do: 'choose', index: 1 }, means: 'Choose the second' },
  { keys: ['3'], action: { do: 'choose', index: 2 }, means: 'Choose the third' },
  { keys: ['t'], action: { do: 'teach' }, means: 'Teach the reply it should have given' },
  { keys: ['z'], action: { do: 'undo' }, means: 'Undo the last feedback or forgetting' },
  { keys: ['r'], action: { do: 'another' }, means: 'Ask for another reply' },
  { keys: ['/', 'Escape'], action: { do: 'compose' }, means: 'Back to your question' },
  { keys: ['?'], action: { do: 'help' }, means: 'Show these keys' },
];

export interface Press {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  repeat: boolean;
}

export function actionFor({ key, ctrlKey, metaKey, altKey, repeat }: Press): Action | null {
  // With a modifier the key is the browser's; a key held down is one press, or a thumb would flutter.
  if (ctrlKey || metaKey || altKey || repeat) return null;
  const wanted = key.length === 1 ? key.toLowerCase() : key;
  return BINDINGS.find(({ keys }) => keys.includes(wanted))?.action ?? null;
}

export function isTextField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches('textarea, input, select, [contenteditable]');
}
