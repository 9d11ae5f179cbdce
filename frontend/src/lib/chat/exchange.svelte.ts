/* One question with its first reply and the other replies that were requested.

   Questions form a tree: an edited question stands beside the one before, after the same exchange.
*/

import type { Turn } from './turn.svelte';

const MAX_EXCLUDED = 100; // limit of the service

export class Exchange {
  turns = $state<Turn[]>([]);
  /** Index of the turn shown. */
  place = $state(0);
  /** The question that follows in the branch shown; null for the newest. */
  chosenNext = $state.raw<Exchange | null>(null);
  /** The new text of the question while it is edited; null otherwise. */
  edited = $state<string | null>(null);

  current = $derived(this.turns[this.place]!);
  shownReplies = $derived([...new Set(this.turns.flatMap(({ reply }) => (reply ? [reply.id] : [])))]);
  /** False once the model had no other reply. */
  hasMore = $derived(this.turns.at(-1)?.reply != null && this.shownReplies.length <= MAX_EXCLUDED);

  constructor(
    readonly question: string,
    first: Turn,
    /** The exchange that the question follows; null at the start of the conversation. */
    readonly parent: Exchange | null = null,
  ) {
    this.turns = [first];
  }

  add(turn: Turn) {
    this.turns.push(turn);
    this.place = this.turns.length - 1;
  }

  move(by: 1 | -1) {
    this.place = Math.min(Math.max(this.place + by, 0), this.turns.length - 1);
  }

  startEditing() {
    this.edited = this.question;
  }

  cancelEditing() {
    this.edited = null;
  }
}
