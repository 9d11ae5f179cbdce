/* Which drawings that were checked and not learned the page still has to tell.

   gallery.rejected --update--> shown, as cards, while the board is empty --dismiss--> remembered in this browser
                        \-> returned, for toasts, while somebody draws: nothing moves below the pen
*/

import type { RejectedExample } from '../schema';
import { t } from '../messages';
import type { Storage } from './sketches';

const KEY = 'online.dismissed_rejections';
const MAX_REMEMBERED = 500; // ids, about 20 kB

/** Drawings of one name that were rejected for one reason, the newest first. */
export interface Rejection {
  label: string;
  reason: string | null;
  examples: RejectedExample[];
}

type OnBoard = { id: string; rejected: boolean };

export const explainRejection = (reason: string | null): string =>
  reason === null ? t.draw.status.rejected : t.draw.guess.rejectedAside(reason);

export const describeRejection = ({ label, reason }: Rejection): string =>
  `${t.draw.guess.refused(label)} ${explainRejection(reason)}`;

export class RejectionNotices {
  shown = $state.raw<Rejection[]>([]);

  private dismissed = new Set<string>();
  /** Those that the bot told while the drawing was on the board, until the page is loaded again. */
  private told = new Set<string>();
  private toasted = new Set<string>();

  constructor(private storage: Storage | null) {}

  /** Show those that were not dismissed, if the board is free. Otherwise return those that toasts have to tell, once each.

  onBoard: the named drawing on the board; the bot itself says that it was rejected.
  */
  update(
    rejected: readonly RejectedExample[],
    { isFree, onBoard = null }: { isFree: boolean; onBoard?: OnBoard | null },
  ): Rejection[] {
    if (onBoard?.rejected) this.told.add(onBoard.id);
    const dismissed = new Set([...this.dismissed, ...this.read()]);
    const open = rejected.filter(({ id }) => !dismissed.has(id) && !this.told.has(id));
    if (isFree) {
      this.shown = groupByReason(open);
      return [];
    }
    const known = new Set(this.shown.flatMap(({ examples }) => examples.map(({ id }) => id)));
    if (onBoard) known.add(onBoard.id);
    const fresh = open.filter(({ id }) => !known.has(id) && !this.toasted.has(id));
    for (const { id } of fresh) this.toasted.add(id);
    return groupByReason(fresh);
  }

  /** Do not show it any more, also after a reload. */
  dismiss(rejection: Rejection) {
    for (const { id } of rejection.examples) this.dismissed.add(id);
    this.shown = this.shown.filter((one) => one !== rejection);
    this.write();
  }

  private read(): string[] {
    try {
      const stored: unknown = JSON.parse(this.storage?.getItem(KEY) ?? '[]');
      return Array.isArray(stored) ? stored.filter((id) => typeof id === 'string') : [];
    } catch {
      return []; // storage may be switched off, or hold something else
    }
  }

  /** Another page may have dismissed some in the meantime. */
  private write() {
    const ids = [...new Set([...this.read(), ...this.dismissed])].slice(-MAX_REMEMBERED);
    try {
      this.storage?.setItem(KEY, JSON.stringify(ids));
    } catch {
      // without storage, they are dismissed until the page is loaded again
    }
  }
}

function groupByReason(rejected: readonly RejectedExample[]): Rejection[] {
  const groups = new Map<string, Rejection>();
  for (const example of rejected) {
    const { label, reason } = example;
    const key = JSON.stringify([label, reason]);
    const group = groups.get(key) ?? { label, reason, examples: [] };
    group.examples.push(example);
    groups.set(key, group);
  }
  return [...groups.values()];
}
