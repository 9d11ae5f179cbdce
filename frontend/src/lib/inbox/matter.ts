/* The sorts of decisions about items. */

import type { InboxItem } from '../schema';

/** What items have in common: what is decided about them. */
export type Matter = 'wrong' | 'right' | 'reply' | 'examples' | 'mixed';

export function matterOf(items: readonly InboxItem[]): Matter {
  const isEvery = (kind: InboxItem['kind']) => items.every((item) => item.kind === kind);
  if (items.some(({ kind }) => kind === 'label')) return 'examples';
  if (items.some(({ correction }) => correction !== null)) return 'reply';
  if (items.length === 0) return 'mixed';
  return isEvery('thumb_down') ? 'wrong' : isEvery('thumb_up') ? 'right' : 'mixed';
}
