/* The conversations that the service stores for this browser, newest first, and the search in them. */

import type { Api } from '../api';
import type { Pause } from '../ui/live_status.svelte';
import type { StoredConversation, ConversationSummary } from '../schema';
import { messageOf } from '../ui/wording';

const TYPING_MS = 250;

export type ConversationsApi = Pick<Api, 'conversations' | 'conversation' | 'deleteConversation'>;

export class StoredConversations {
  /** null until the service has answered. */
  shown = $state.raw<ConversationSummary[] | null>(null);
  words = $state('');
  problem = $state<string | null>(null);

  /** Number of the latest request; answers to earlier ones are dropped. */
  private count = 0;

  constructor(
    private api: ConversationsApi,
    private pause: Pause,
  ) {}

  /** Search after a pause in typing. */
  async search(words: string): Promise<void> {
    this.words = words;
    const count = ++this.count;
    await this.pause(TYPING_MS);
    if (count === this.count) await this.refresh();
  }

  async refresh(): Promise<void> {
    const count = ++this.count;
    const listed = this.api.conversations(this.words.trim());
    await this.attempt(async () => {
      const shown = await listed;
      if (count === this.count) this.shown = shown;
    });
  }

  /** The whole conversation, for a file; null if the request fails. */
  open(id: string): Promise<StoredConversation | null> {
    return this.attempt(() => this.api.conversation(id));
  }

  /** Delete a conversation. Return whether it was deleted. */
  async delete(id: string): Promise<boolean> {
    const deleted = await this.attempt(async () => {
      await this.api.deleteConversation(id);
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
