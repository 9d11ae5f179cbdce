/* The conversations that the service keeps for this browser: the newest first, those with certain words, or none. */

import type { Api } from './api';
import type { Pause } from './live.svelte';
import type { ConversationKept, ConversationShown } from './schema';
import { messageOf } from './words';

const TYPING_MS = 250;

export type ConversationsApi = Pick<Api, 'conversations' | 'conversation' | 'deleteConversation'>;

export class Conversations {
  /** null until the service has answered. */
  shown = $state.raw<ConversationShown[] | null>(null);
  words = $state('');
  problem = $state<string | null>(null);

  /** Of the last search or listing: the answers of earlier ones come too late. */
  private count = 0;

  constructor(
    private api: ConversationsApi,
    private user: string,
    private pause: Pause,
  ) {}

  /** Once nobody has typed for a moment. */
  async search(words: string): Promise<void> {
    this.words = words;
    const count = ++this.count;
    await this.pause(TYPING_MS);
    if (count === this.count) await this.refresh();
  }

  async refresh(): Promise<void> {
    const count = ++this.count;
    const listed = this.api.conversations(this.user, this.words.trim());
    await this.attempt(async () => {
      const shown = await listed;
      if (count === this.count) this.shown = shown;
    });
  }

  /** All of one, to be saved to a file; null, if it cannot be had. */
  open(id: string): Promise<ConversationKept | null> {
    return this.attempt(() => this.api.conversation(this.user, id));
  }

  /** Whether it is gone. */
  async delete(id: string): Promise<boolean> {
    const deleted = await this.attempt(async () => {
      await this.api.deleteConversation(this.user, id);
      return true;
    });
    if (deleted) await this.refresh();
    return deleted ?? false;
  }

  private async attempt<T>(work: () => Promise<T>): Promise<T | null> {
    this.problem = null;
    try {
      return await work();
    } catch (error) {
      this.problem = messageOf(error);
      return null;
    }
  }
}
