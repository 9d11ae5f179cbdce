/* The talk: what was asked, what is being asked, what went wrong, and the keys that act on the last reply. */

import { Feedback, type Around } from './feedback.svelte';
import type { Action } from './keys';
import { Turn } from './turn.svelte';

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

export class Conversation {
  turns = $state<Turn[]>([]);
  draft = $state('');
  /** The question on its way; null while none is. */
  pending = $state<string | null>(null);
  problem = $state<string | null>(null);

  private journal = $state<Feedback[]>([]);

  last = $derived(this.turns.at(-1) ?? null);
  learnedCount = $derived(this.journal.filter(({ learned, stands }) => learned && stands).length);

  private around: Around;

  constructor(around: Omit<Around, 'complain'>) {
    this.around = { ...around, complain: (error) => this.complain(error) };
  }

  async ask(text = this.draft): Promise<void> {
    const question = text.trim();
    if (question === '' || this.pending !== null) return;
    this.problem = null;
    this.pending = question;
    this.draft = '';
    try {
      const { api, user } = this.around;
      const answer = await api.predict({ instances: [question], user, record: true });
      this.turns.push(new Turn(this.around, this.journal, question, answer));
    } catch (error) {
      this.draft ||= question; // never lost; but what was typed meanwhile is not overwritten
      this.complain(error);
    }
    this.pending = null;
  }

  async rollBack(version: string): Promise<void> {
    this.problem = null;
    await this.around.live.rollBack(version).catch((error: unknown) => this.complain(error));
  }

  /** Takes back the feedback that was given last and still stands, whichever reply it was about. */
  async undo(): Promise<void> {
    const feedback = this.journal.findLast(({ stands }) => stands);
    if (feedback) await this.turns.find(({ given }) => given.includes(feedback))?.undo(feedback);
  }

  act(action: Action): Promise<void> | void {
    switch (action.do) {
      case 'rate':
        return this.last?.rate(action.reward);
      case 'choose':
        return this.last?.choose(action.index);
      case 'teach':
        return this.last?.askToTeach();
      case 'undo':
        return this.undo();
    }
  }

  private complain(error: unknown) {
    this.problem = messageOf(error);
  }
}
