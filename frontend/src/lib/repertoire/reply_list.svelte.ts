/* The list of replies. The service searches, filters and sorts it, and gives a page at a time.

   words, filter, order --> ask --> first page(s)        end of the list in view --> showMore --> the next page
   an event ------------/
*/

import type { RepertoireApi, ReplyQuery } from '../api/repertoire';
import type { ReplyCounts, ReplySummary } from '../schema';
import { Newest } from '../ui/newest';
import { problemOf } from '../ui/problems';
import type { Pause } from '../ui/live_status.svelte';

export const PAGE_SIZE = 50; // replies added to the list each time
export const MAX_PAGE = 1000; // replies in one answer of the service

export const REPLY_FILTERS = ['all', 'given', 'retired', 'never_right'] as const;
export type ReplyFilter = (typeof REPLY_FILTERS)[number];

export const REPLY_ORDERS = ['listed', 'most_rated', 'least_right', 'newest', 'by_text'] as const;
export type ReplyOrder = (typeof REPLY_ORDERS)[number];

export const isNeverRight = ({ rated, right }: Pick<ReplySummary, 'rated' | 'right'>) => rated > 0 && right === 0;

const splitWords = (text: string) =>
  text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');

/** Whether a text contains all words. */
export function containsWords(text: string, words: string): boolean {
  const within = text.toLowerCase();
  return splitWords(words).every((word) => within.includes(word));
}

/** A text in parts, of which every second one is a found word. */
export function splitAtWords(text: string, words: string): string[] {
  const found = splitWords(words)
    .sort((one, other) => other.length - one.length)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return found.length === 0 ? [text] : text.split(new RegExp(`(${found.join('|')})`, 'i'));
}

export class ReplyList {
  /** null until the service has answered. */
  shown = $state.raw<ReplySummary[] | null>(null);
  /** In the box; the list may still be that of `searched`. */
  words = $state('');
  searched = $state('');
  filter = $state<ReplyFilter>('all');
  order = $state<ReplyOrder>('listed');
  /** How many replies there are of each kind, whatever is searched for. */
  counts = $state.raw<ReplyCounts | null>(null);
  /** How many replies fit, on all pages. */
  found = $state(0);
  problem = $state<string | null>(null);

  /** Where the next page begins; null after the last. */
  private next = $state<string | null>(null);
  hasMore = $derived(this.next !== null);
  left = $derived(Math.max(0, this.found - (this.shown?.length ?? 0)));

  private wanted = PAGE_SIZE;
  private newest = new Newest();

  constructor(
    private api: Pick<RepertoireApi, 'replies'>,
    private pause: Pause,
  ) {}

  /** Search after a pause in typing. */
  async search(words: string): Promise<void> {
    [this.words, this.wanted] = [words, PAGE_SIZE];
    const signal = await this.newest.beginAfterTyping(this.pause);
    if (signal !== null) await this.load(signal);
  }

  setFilter(filter: ReplyFilter): Promise<void> {
    [this.filter, this.wanted] = [filter, PAGE_SIZE];
    return this.refresh();
  }

  setOrder(order: ReplyOrder): Promise<void> {
    [this.order, this.wanted] = [order, PAGE_SIZE];
    return this.refresh();
  }

  /** Ask again for as many replies as are shown. */
  refresh(): Promise<void> {
    return this.load(this.newest.begin());
  }

  /** Add the next page. */
  async showMore(): Promise<void> {
    const after = this.next;
    if (after === null) return;
    this.wanted = (this.shown?.length ?? 0) + PAGE_SIZE;
    const signal = this.newest.begin();
    await this.attempt(signal, async () => {
      const answer = await this.api.replies({ ...this.query(), limit: PAGE_SIZE, after }, signal);
      if (signal.aborted) return;
      const known = new Set(this.shown?.map(({ id }) => id));
      this.shown = [...(this.shown ?? []), ...answer.replies.filter(({ id }) => !known.has(id))];
      [this.next, this.found, this.counts] = [answer.next, answer.found, answer.counts];
    });
  }

  /** Those that were never right come in the order in which they matter, unless the person chose another one. */
  private query(): Omit<ReplyQuery, 'limit'> {
    const isDefault = this.filter === 'never_right' && this.order === 'listed';
    return {
      q: this.words.trim(),
      show: this.filter,
      sort: isDefault ? 'most_rated' : this.order,
    };
  }

  private load(signal: AbortSignal): Promise<void> {
    return this.attempt(signal, async () => {
      const [words, query, replies] = [this.words, this.query(), [] as ReplySummary[]];
      let after: string | null = null;
      do {
        const limit = Math.min(MAX_PAGE, this.wanted - replies.length);
        const answer = await this.api.replies({ ...query, limit, after }, signal);
        if (signal.aborted) return;
        replies.push(...answer.replies);
        after = answer.next;
        [this.found, this.counts] = [answer.found, answer.counts];
      } while (after !== null && replies.length < this.wanted);
      [this.shown, this.next, this.searched] = [replies, after, words];
    });
  }

  private async attempt(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      if (!signal.aborted) this.problem = null;
    } catch (error) {
      if (!signal.aborted) this.problem = problemOf(error);
    }
  }
}
