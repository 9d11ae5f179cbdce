/* What a curator approved, in words. */

import { t } from '../messages';
import { count } from '../ui/wording';
import type { Approved } from './gallery.svelte';

export function describeApproval(approved: readonly Approved[]): string {
  const [first] = approved;
  if (approved.length === 1 && first) return t.draw.approval.one(first.label);
  return t.draw.approval.several(count(approved.length));
}
