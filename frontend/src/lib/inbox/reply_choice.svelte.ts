/* The choice of a reply for the questions of a group: the likely ones first, others by their words. */

import type { InboxApi } from '../api/inbox';
import type { Candidate, ReplySummary } from '../schema';
import type { Pause } from '../ui/live_status.svelte';
import { Newest } from '../ui/newest';
import { problemOf } from '../ui/problems';

const MAX_FOUND = 8;
const MAX_LIKELY = 5;

export class ReplyChoice {
  words = $state('');
  /** Replies with the words; null until the first answer. */
  found = $state.raw<ReplySummary[] | null>(null);
  problem = $state<string | null>(null);
  private likely = $state.raw<Candidate[]>([]);
  /** Whether the likely replies are listed, as no words are searched. */
  showsLikely = $derived(this.words.trim() === '' && this.likely.length > 0);
  shown: (Candidate | ReplySummary)[] = $derived(this.showsLikely ? this.likely : (this.found ?? []));
  private newest = new Newest();

  /** given: ids of replies that the question got before. They come last among the likely ones. */
  constructor(
    private api: Pick<InboxApi, 'findReplies' | 'likelyReplies'>,
    private pause: Pause,
    private given: string[],
  ) {}

  /** texts: the questions and suggestions for which replies are likely; none: only the search is there. */
  async open(texts: string[]): Promise<void> {
    await Promise.all([this.load(this.newest.begin()), this.loadLikely(texts)]);
  }

  /** Search after a pause in typing. */
  async search(words: string): Promise<void> {
    this.words = words;
    const signal = await this.newest.beginAfterTyping(this.pause);
    if (signal !== null) await this.load(signal);
  }

  private async load(signal: AbortSignal): Promise<void> {
    try {
      const replies = await this.api.findReplies(this.words.trim(), MAX_FOUND, signal);
      if (!signal.aborted) [this.found, this.problem] = [replies, null];
    } catch (error) {
      if (!signal.aborted) this.problem = problemOf(error);
    }
  }

  private async loadLikely(texts: string[]): Promise<void> {
    if (texts.length === 0) return;
    const candidates = await this.api.likelyReplies(...texts).catch(() => []); // optional: replies can be searched as well
    const wasGiven = ({ id }: Candidate) => this.given.includes(id);
    const best = candidates.slice(0, MAX_LIKELY);
    this.likely = [...best.filter((one) => !wasGiven(one)), ...best.filter(wasGiven)];
  }
}
