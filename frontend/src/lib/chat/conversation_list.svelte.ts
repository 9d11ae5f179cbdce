/* The conversations that the service stores for this person: search, rename, pin, share, delete.

   Pinned ones come first, then the newest; a page of the list at a time.
*/

import type { Api } from '../api/chat';
import type { Pause } from '../ui/live_status.svelte';
import { t } from '../messages';
import type { ConversationChange, ConversationSummary, StoredConversation } from '../schema';
import { problemOf } from '../ui/problems';
import { Newest } from '../ui/newest';

const DAY_MS = 86_400_000;

export type ConversationsApi = Pick<
  Api,
  | 'conversations'
  | 'conversation'
  | 'changeConversation'
  | 'shareConversation'
  | 'unshareConversation'
  | 'deleteConversation'
>;

/** Conversations under one heading, such as "Yesterday". */
export interface ConversationGroup {
  name: keyof typeof t.chat.conversations.groups;
  conversations: ConversationSummary[];
}

export class StoredConversations {
  /** null until the service has answered. */
  shown = $state.raw<ConversationSummary[] | null>(null);
  words = $state('');
  problem = $state<string | null>(null);
  groups = $derived(groupByAge(this.shown ?? [], new Date()));

  /** Where the next page of the list begins; null after the last. */
  private next = $state<string | null>(null);
  hasMore = $derived(this.next !== null);
  /** Number of the latest request; answers to earlier ones are dropped. */
  private count = 0;
  private typing = new Newest();

  constructor(
    private api: ConversationsApi,
    private pause: Pause,
  ) {}

  /** Search after a pause in typing. */
  async search(words: string): Promise<void> {
    this.words = words;
    if ((await this.typing.beginAfterTyping(this.pause)) !== null) await this.refresh();
  }

  async refresh(): Promise<void> {
    const count = ++this.count;
    await this.attempt(async () => {
      const { conversations, next } = await this.api.conversations(this.words.trim());
      if (count === this.count) [this.shown, this.next] = [conversations, next];
    });
  }

  /** Load the list once more where that failed. */
  async retry(): Promise<void> {
    if (this.problem !== null) await this.refresh();
  }

  /** Load the next page. */
  async showMore(): Promise<void> {
    const count = ++this.count;
    await this.attempt(async () => {
      const { conversations, next } = await this.api.conversations(this.words.trim(), this.next);
      if (count !== this.count) return;
      const listed = new Set(conversations.map(({ id }) => id));
      // Where the service lists one that this browser has turns of, its row is the complete one.
      const before = (this.shown ?? []).filter(({ id, isLocal }) => !(isLocal && listed.has(id)));
      const known = new Set(before.map(({ id }) => id));
      this.shown = [...before, ...conversations.filter(({ id }) => !known.has(id))];
      this.next = next;
    });
  }

  /** The whole conversation, for a file; null if the request fails. */
  open(id: string): Promise<StoredConversation | null> {
    return this.attempt(() => this.api.conversation(id));
  }

  /** Rename it, or pin it. Return whether that was done. */
  async change(id: string, change: ConversationChange): Promise<boolean> {
    return this.act(() => this.api.changeConversation(id, change));
  }

  /** Share it up to a turn, or to the newest one. Returns the id of the link; null if the request fails. */
  async share(id: string, until: string | null): Promise<string | null> {
    const shared = await this.attempt(() => this.api.shareConversation(id, until));
    if (shared) await this.refresh();
    return shared?.share_id ?? null;
  }

  async unshare(id: string): Promise<boolean> {
    return this.act(() => this.api.unshareConversation(id));
  }

  /** Delete a conversation. Return whether it was deleted. */
  async delete(id: string): Promise<boolean> {
    return this.act(() => this.api.deleteConversation(id));
  }

  private async act(work: () => Promise<unknown>): Promise<boolean> {
    const done = await this.attempt(async () => {
      await work();
      return true;
    });
    if (done) await this.refresh();
    return done ?? false;
  }

  private async attempt<T>(work: () => Promise<T>): Promise<T | null> {
    this.problem = null;
    try {
      return await work();
    } catch (error) {
      this.problem = problemOf(error);
      return null;
    }
  }
}

/** Group conversations by the day of their last question, in the order given. Groups without any are left out. */
export function groupByAge(conversations: readonly ConversationSummary[], now: Date): ConversationGroup[] {
  const groups = new Map<ConversationGroup['name'], ConversationSummary[]>();
  for (const conversation of conversations) {
    const name = conversation.pinned ? 'pinned' : ageOf(new Date(conversation.updated_at), now);
    groups.set(name, [...(groups.get(name) ?? []), conversation]);
  }
  return [...groups].map(([name, inGroup]) => ({ name, conversations: inGroup }));
}

function ageOf(at: Date, now: Date): ConversationGroup['name'] {
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  const days = Math.ceil((today.getTime() - at.getTime()) / DAY_MS);
  if (days <= 0) return 'today';
  if (days === 1) return 'yesterday';
  if (days <= 7) return 'week';
  return days <= 30 ? 'month' : 'older';
}
