/* The replies a ranker may give: listed, searched, filtered, and added.

   LiveStatus (events) -> refresh -> replies, the open reply, unanswered questions -> the page
*/

import type { FileFormat, RepertoireApi } from '../api';
import { Change } from './change.svelte';
import { UnansweredQuestions } from './unanswered.svelte';
import { coalesce } from '../ui/coalesce';
import { ReplyImport } from './reply_import.svelte';
import { LiveStatus, type Pause } from '../ui/live_status.svelte';
import { EditableReply } from './reply.svelte';
import type { ReplySummary } from '../schema';
import { language, t } from '../messages';
import { problemOf } from '../ui/problems';

const REST_MS = 1000; // pause between two refreshes, however many versions are published
const UNANSWERED_REST_MS = 3000;
const TYPING_MS = 250;
export const PAGE_SIZE = 50; // replies added to the list each time

export const REPLY_FILTERS = ['all', 'given', 'retired', 'neverRight'] as const;
export type ReplyFilter = (typeof REPLY_FILTERS)[number];

export const isNeverRight = ({ rated, right }: ReplySummary) => rated > 0 && right === 0;

const FILTER_RULES: Record<ReplyFilter, (reply: ReplySummary) => boolean> = {
  all: () => true,
  given: ({ active }) => active,
  retired: ({ active }) => !active,
  neverRight: isNeverRight,
};

export const REPLY_ORDERS = ['listed', 'mostRated', 'leastRight', 'newest', 'byText'] as const;
export type ReplyOrder = (typeof REPLY_ORDERS)[number];

/** The share of right ratings; those that were never rated come last. */
const rightShare = ({ rated, right }: ReplySummary) => (rated === 0 ? 2 : right / rated);

const ORDER_RULES: Record<ReplyOrder, (one: ReplySummary, other: ReplySummary) => number> = {
  listed: () => 0,
  mostRated: (one, other) => other.rated - one.rated,
  leastRight: (one, other) => rightShare(one) - rightShare(other) || other.rated - one.rated,
  newest: (one, other) => other.offset - one.offset,
  byText: (one, other) => one.text.localeCompare(other.text, language),
};

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

interface Dependencies {
  api: RepertoireApi;
  newId: () => string;
  pause: Pause;
  /** Whether the caller is a curator: others see the replies only. */
  mayCurate: boolean;
}

export class Repertoire {
  readonly live: LiveStatus;
  readonly unanswered: UnansweredQuestions;
  readonly replyImport: ReplyImport;
  /** null until the service has answered. */
  replies = $state.raw<ReplySummary[] | null>(null);
  words = $state('');
  filter = $state<ReplyFilter>('all');
  order = $state<ReplyOrder>('listed');
  /** Number of replies shown at most. */
  limit = $state(PAGE_SIZE);
  /** The open reply. */
  current = $state.raw<EditableReply | null>(null);
  /** The id of the reply opened last: the list gives it the focus when the user returns. */
  lastOpenedId: string | null = null;
  newText = $state('');
  newQuestions = $state('');
  /** The last reply added here, and the state of that change. */
  added = $state.raw<{ id: string; text: string } | null>(null);
  addition = $state.raw<Change | null>(null);
  problem = $state<string | null>(null);

  /** Ids of replies whose example questions contain the words; only the service knows them. */
  private exampleMatches = $state.raw<ReadonlySet<string>>(new Set());
  private searchCount = 0;
  private followsUnanswered = false;

  counts = $derived(
    Object.fromEntries(
      REPLY_FILTERS.map((show) => [show, this.replies?.filter(FILTER_RULES[show]).length ?? 0]),
    ) as Record<ReplyFilter, number>,
  );
  matches = $derived.by(() => {
    const fits = FILTER_RULES[this.filter];
    const found = (this.replies ?? []).filter(
      (reply) =>
        fits(reply) && (containsWords(reply.text, this.words) || this.exampleMatches.has(reply.id)),
    );
    const isDefault = this.filter === 'neverRight' && this.order === 'listed';
    return found.sort(ORDER_RULES[isDefault ? 'mostRated' : this.order]);
  });
  shown = $derived(this.matches.slice(0, this.limit));

  readonly refresh: () => void;
  private refreshUnanswered: () => void;

  constructor(private dependencies: Dependencies) {
    const { api, pause } = dependencies;
    this.refresh = coalesce(() => this.load(), pause, REST_MS);
    this.live = new LiveStatus(api, pause, () => {
      this.refresh();
      if (this.followsUnanswered) this.refreshUnanswered();
    });
    this.unanswered = new UnansweredQuestions({ ...dependencies, live: this.live });
    this.refreshUnanswered = coalesce(() => this.unanswered.load(), pause, UNANSWERED_REST_MS);
    this.replyImport = new ReplyImport(api, this.live, () => this.refresh());
  }

  start() {
    this.live.start();
    this.refresh();
    if (!this.dependencies.mayCurate) return;
    this.refreshUnanswered();
  }

  stop() {
    this.live.stop();
  }

  /** Search the texts at once, and the example questions after a pause in typing. */
  async search(words: string): Promise<void> {
    [this.words, this.limit, this.exampleMatches] = [words, PAGE_SIZE, new Set()];
    const search = ++this.searchCount;
    if (words.trim() === '') return;
    await this.dependencies.pause(TYPING_MS);
    if (search !== this.searchCount) return;
    const found = await this.dependencies.api
      .replies(words.trim())
      .catch((error: unknown) => this.complain(error));
    if (found && search === this.searchCount)
      this.exampleMatches = new Set(found.map(({ id }) => id));
  }

  setFilter(show: ReplyFilter) {
    [this.filter, this.limit] = [show, PAGE_SIZE];
  }

  setOrder(order: ReplyOrder) {
    [this.order, this.limit] = [order, PAGE_SIZE];
  }

  showMore() {
    this.limit += PAGE_SIZE;
  }

  /** The first `limit` replies that contain all words. */
  findByWords(words: string, limit: number): ReplySummary[] {
    if (splitWords(words).length === 0) return [];
    return (this.replies ?? []).filter(({ text }) => containsWords(text, words)).slice(0, limit);
  }

  /** Open the reply with that id; null closes it. */
  async open(id: string | null): Promise<void> {
    if (id === (this.current?.id ?? null)) return;
    if (this.current) this.lastOpenedId = this.current.id;
    this.current =
      id === null
        ? null
        : new EditableReply(this.dependencies.api, this.live, id, () => this.refresh());
    await this.current?.load();
  }

  /** Refresh unanswered questions only while they are shown, because they are expensive for the service. */
  followUnanswered(isShown: boolean) {
    isShown &&= this.dependencies.mayCurate;
    if (isShown && !this.followsUnanswered) this.refreshUnanswered();
    this.followsUnanswered = isShown;
  }

  /** Add the new reply. Text that could not be sent stays in the boxes. */
  async add(): Promise<void> {
    const text = this.newText.trim();
    if (text === '' || (this.addition && !this.addition.saved && this.addition.failed === null))
      return;
    const examples = this.newQuestions
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    this.addition = new Change(
      this.live,
      async () => {
        const {
          id,
          text: saved,
          offset,
        } = await this.dependencies.api.addReply({ text, examples });
        this.added = { id, text: saved };
        return offset;
      },
      t.repertoire.steps.added,
    );
    if (await this.addition.sent) [this.newText, this.newQuestions] = ['', ''];
    this.refresh();
  }

  exportOf(format: FileFormat): string {
    return this.dependencies.api.exportOf(format);
  }

  private async load() {
    try {
      this.replies = await this.dependencies.api.replies('');
      this.problem = null;
    } catch (error) {
      this.complain(error);
    }
    await this.current?.load();
  }

  private complain(error: unknown) {
    this.problem = problemOf(error);
  }
}
