/* The replies a ranker may give: all of them, those with certain words, those that were never right; a new one.

   Live (events) --heard--> refresh -> replies, the one that is open, the gaps -> the page
*/

import type { FileFormat, RepertoireApi } from './api';
import { Change } from './change.svelte';
import { Gaps } from './gaps.svelte';
import { gathered } from './gathered';
import { Importing } from './importing.svelte';
import { Live, type Pause } from './live.svelte';
import { OneReply } from './reply.svelte';
import type { ReplyListed } from './schema';
import { messageOf } from './words';

const REST_MS = 1000; // between two looks, however many versions come
const GAPS_REST_MS = 3000;
const TYPING_MS = 250;
export const AT_ONCE = 50; // so many more are shown each time

export const SHOWS = ['all', 'given', 'retired', 'never right'] as const;
export type Show = (typeof SHOWS)[number];

export const neverRight = ({ rated, right }: ReplyListed) => rated > 0 && right === 0;

const FITS: Record<Show, (reply: ReplyListed) => boolean> = {
  all: () => true,
  given: ({ active }) => active,
  retired: ({ active }) => !active,
  'never right': neverRight,
};

const wordsOf = (text: string) => text.toLowerCase().split(/\s+/).filter((word) => word !== '');

/** Whether all words stand in a text. */
export function hasWords(text: string, words: string): boolean {
  const within = text.toLowerCase();
  return wordsOf(words).every((word) => within.includes(word));
}

interface Outside {
  api: RepertoireApi;
  user: string;
  newId: () => string;
  pause: Pause;
}

export class Repertoire {
  readonly live: Live;
  readonly gaps: Gaps;
  readonly importing: Importing;
  /** null until the service has answered. */
  replies = $state.raw<ReplyListed[] | null>(null);
  words = $state('');
  show = $state<Show>('all');
  /** At most so many are shown. */
  most = $state(AT_ONCE);
  /** The one that is looked at. */
  one = $state.raw<OneReply | null>(null);
  /** The id of the one that was looked at last: whoever comes back to the list goes on there. */
  left: string | null = null;
  newText = $state('');
  newQuestions = $state('');
  /** The last reply that was added here, and what became of it. */
  added = $state.raw<{ id: string; text: string } | null>(null);
  adding = $state.raw<Change | null>(null);
  problem = $state<string | null>(null);

  /** Ids of those whose example questions have the words, which only the service knows. */
  private asked = $state.raw<ReadonlySet<string>>(new Set());
  private searches = 0;
  private looksAtGaps = false;

  counts = $derived(
    Object.fromEntries(SHOWS.map((show) => [show, this.replies?.filter(FITS[show]).length ?? 0])) as Record<Show, number>,
  );
  found = $derived.by(() => {
    const fits = FITS[this.show];
    const found = (this.replies ?? []).filter(
      (reply) => fits(reply) && (hasWords(reply.text, this.words) || this.asked.has(reply.id)),
    );
    return this.show === 'never right' ? found.sort((one, other) => other.rated - one.rated) : found;
  });
  shown = $derived(this.found.slice(0, this.most));

  readonly refresh: () => void;
  private refreshGaps: () => void;

  constructor(private outside: Outside) {
    const { api, pause } = outside;
    this.refresh = gathered(() => this.load(), pause, REST_MS);
    this.live = new Live(api, pause, () => {
      this.refresh();
      if (this.looksAtGaps) this.refreshGaps();
    });
    this.gaps = new Gaps({ ...outside, live: this.live });
    this.refreshGaps = gathered(() => this.gaps.load(), pause, GAPS_REST_MS);
    this.importing = new Importing(api, this.live, () => this.refresh());
  }

  start() {
    this.live.start();
    this.refresh();
    this.refreshGaps();
  }

  stop() {
    this.live.stop();
  }

  /** What is known here at once; what only the service knows once nobody has typed for a moment. */
  async search(words: string): Promise<void> {
    [this.words, this.most, this.asked] = [words, AT_ONCE, new Set()];
    const search = ++this.searches;
    if (words.trim() === '') return;
    await this.outside.pause(TYPING_MS);
    if (search !== this.searches) return;
    const found = await this.outside.api.replies(words.trim()).catch((error: unknown) => this.complain(error));
    if (found && search === this.searches) this.asked = new Set(found.map(({ id }) => id));
  }

  only(show: Show) {
    [this.show, this.most] = [show, AT_ONCE];
  }

  more() {
    this.most += AT_ONCE;
  }

  /** At most so many that have all of these words. */
  withWords(words: string, most: number): ReplyListed[] {
    if (wordsOf(words).length === 0) return [];
    return (this.replies ?? []).filter(({ text }) => hasWords(text, words)).slice(0, most);
  }

  /** The one with that id is looked at; null: none is. */
  async open(id: string | null): Promise<void> {
    if (id === (this.one?.id ?? null)) return;
    if (this.one) this.left = this.one.id;
    this.one = id === null ? null : new OneReply(this.outside.api, this.live, id, () => this.refresh());
    await this.one?.load();
  }

  /** Gaps are followed while somebody looks at them: they cost the service more than the rest. */
  lookAtGaps(looks: boolean) {
    if (looks && !this.looksAtGaps) this.refreshGaps();
    this.looksAtGaps = looks;
  }

  /** Words that could not be sent stay in the boxes. */
  async add(): Promise<void> {
    const text = this.newText.trim();
    if (text === '' || (this.adding && !this.adding.saved && this.adding.failed === null)) return;
    const examples = this.newQuestions.split('\n').map((line) => line.trim()).filter((line) => line !== '');
    this.adding = new Change(this.live, async () => {
      const { id, text: kept, offset } = await this.outside.api.addReply({ text, examples });
      this.added = { id, text: kept };
      return offset;
    }, 'added');
    if (await this.adding.sent) [this.newText, this.newQuestions] = ['', ''];
    this.refresh();
  }

  exportOf(format: FileFormat): string {
    return this.outside.api.exportOf(format);
  }

  private async load() {
    try {
      this.replies = await this.outside.api.replies('');
      this.problem = null;
    } catch (error) {
      this.complain(error);
    }
    await this.one?.load();
  }

  private complain(error: unknown) {
    this.problem = messageOf(error);
  }
}
