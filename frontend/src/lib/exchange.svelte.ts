/* One question, and the replies it got one after the other: each but the first because another was wanted. */

import type { Turn } from './turn.svelte';

const MOST_BESIDES = 100; // more the service does not take

export class Exchange {
  turns = $state<Turn[]>([]);
  /** Which of them is shown. */
  place = $state(0);

  current = $derived(this.turns[this.place]!);
  shownReplies = $derived([...new Set(this.turns.flatMap(({ reply }) => (reply ? [reply.id] : [])))]);
  /** Once there was none left, there is none to ask for. */
  hasMore = $derived(this.turns.at(-1)?.reply != null && this.shownReplies.length <= MOST_BESIDES);

  constructor(
    readonly question: string,
    first: Turn,
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
}
