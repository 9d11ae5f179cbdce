/* The page shown, by the last part of the path, and its subject: a model, a conversation or a reply.

   click on a link -> history -> page, model -> the page is mounted -> its heading takes the focus
   back, forward  ----------/
*/

import { PAGES, type PageName } from './pages';

export { PAGES, type PageName };

/** The part of `window` that the router uses, so that a test can replace it. */
export interface BrowserWindow {
  location: { pathname: string; search: string; href: string; origin: string };
  history: Record<'pushState' | 'replaceState', (data: unknown, unused: string, url: string) => void>;
  addEventListener(type: 'popstate', listener: () => void): void;
}

const isPage = (name: string): name is PageName => (PAGES as readonly string[]).includes(name);

/** The chat is the folder itself, and the other pages are files in it, under any prefix. */
export function pageOf(pathname: string): PageName {
  const name = pathname.slice(pathname.lastIndexOf('/') + 1);
  return isPage(name) ? name : 'chat';
}

export function hrefOf(page: PageName, model?: string | null): string {
  const query = model ? `?${new URLSearchParams({ model })}` : '';
  return `./${page === 'chat' ? '' : page}${query}`;
}

/** The address of a conversation that was shared by a link. */
export const hrefOfShared = (shareId: string) => `./shared?${new URLSearchParams({ id: shareId })}`;

export const hrefOfConversation = (id: string | null) => (id === null ? './' : `./?${new URLSearchParams({ c: id })}`);

export const REPERTOIRE_TABS = ['replies', 'unanswered', 'file'] as const;
export type RepertoireTab = (typeof REPERTOIRE_TABS)[number];

/** What the repertoire page shows: a reply by its id, or one of the tabs; all replies by default. */
export interface RepertoireTarget {
  reply?: string;
  part?: RepertoireTab;
}

export function hrefOfRepertoire({ reply, part }: RepertoireTarget, model: string | null = null): string {
  const subject = {
    ...(model === null ? {} : { model }),
    ...(reply === undefined ? {} : { reply }),
  };
  const query = new URLSearchParams({
    ...subject,
    ...(part === undefined || part === 'replies' ? {} : { part }),
  });
  return `./repertoire${query.size > 0 ? `?${query}` : ''}`;
}

/** What the page of reports shows: a replay by its id, or the report of a model, the newest by default. */
export interface ReportTarget {
  replay?: string | null;
  model?: string | null;
  until?: number | null;
}

export function hrefOfReport({ replay, model, until }: ReportTarget): string {
  const query = new URLSearchParams();
  if (replay != null) query.set('replay', replay);
  else if (model != null) query.set('model', model);
  if (replay == null && until != null) query.set('until', String(until));
  return `./reports${query.size > 0 ? `?${query}` : ''}`;
}

/** What the inbox shows: a group by its id, or the list. model: null for the page's default. */
export interface InboxTarget {
  model: string | null;
  group?: string | null;
}

export function hrefOfInbox({ model, group = null }: InboxTarget): string {
  const query = new URLSearchParams({
    ...(model === null ? {} : { model }),
    ...(group === null ? {} : { group }),
  });
  return `./inbox${query.size > 0 ? `?${query}` : ''}`;
}

export class Router {
  page = $state<PageName>('chat');
  /** The model named in the address; null for the page's default. */
  model = $state<string | null>(null);

  /** The conversation of the chat, kept while other pages are shown; null for a new one. */
  conversation = $state<string | null>(null);

  /** The reply shown in the repertoire; null for a list. */
  reply = $state<string | null>(null);
  part = $state<RepertoireTab>('replies');

  /** The group that is chosen in the inbox; null for none. */
  group = $state<string | null>(null);

  /** The id of the shared conversation that is shown; null for none. */
  shareId = $state<string | null>(null);
  /** The replay whose report is shown; null for the report of a model. */
  replay = $state<string | null>(null);
  /** The last event of the report of a model that is shown; null for the newest. */
  until = $state<number | null>(null);

  private hasNavigated = false;

  constructor(private window: BrowserWindow) {
    this.read();
    window.addEventListener('popstate', () => this.arrive());
  }

  go(page: PageName, model?: string | null) {
    this.push(page === 'chat' ? hrefOfConversation(this.conversation) : hrefOf(page, model));
    this.arrive();
  }

  /** Show a page in place of the present one, to which "back" does not return. */
  replace(page: PageName) {
    this.window.history.replaceState(null, '', this.absolute(hrefOf(page)));
    this.read();
  }

  /** Show a conversation in the chat; null for a new one. */
  goToConversation(id: string | null) {
    this.push(hrefOfConversation(id));
    this.read(); // not a new page: the list sets the focus
  }

  /** Put the id of the conversation shown into the address once it has begun. */
  nameConversation(id: string) {
    this.conversation = id;
    if (this.page !== 'chat') return;
    this.window.history.replaceState(null, '', this.absolute(hrefOfConversation(id)));
  }

  /** Follow a link within the page. Clicks with a modifier key are left to the browser. */
  follow(event: MouseEvent, page: PageName, model?: string | null) {
    if (!this.claimClick(event)) return;
    const within = this.reply !== null || this.part !== 'replies' || this.group !== null;
    if (page !== this.page || (model ?? null) !== this.model || within) this.go(page, model);
  }

  /** Follow a link into the repertoire. A link between its tabs does not move the focus. */
  followToRepertoire(event: MouseEvent, shown: RepertoireTarget, model: string | null = this.model) {
    if (!this.claimClick(event)) return;
    this.push(hrefOfRepertoire(shown, model));
    if (shown.part === undefined) this.arrive();
    else this.read();
  }

  /** Follow a link from another page to a group of the inbox. */
  followToInbox(event: MouseEvent, shown: InboxTarget) {
    if (!this.claimClick(event)) return;
    this.push(hrefOfInbox(shown));
    this.arrive();
  }

  /** Show a group of the inbox, or its list. isStep: as a page of its own, to which "back" returns. */
  goToGroup(shown: InboxTarget, isStep = true) {
    const href = hrefOfInbox(shown);
    if (isStep) this.push(href);
    else this.window.history.replaceState(null, '', this.absolute(href));
    this.read(); // not a new page: the inbox sets the focus
  }

  /** Show another report, within the page of reports. */
  goToReport(shown: ReportTarget) {
    this.push(hrefOfReport(shown));
    this.read();
  }

  followToReport(event: MouseEvent, shown: ReportTarget): boolean {
    const isClaimed = this.claimClick(event);
    if (isClaimed) this.goToReport(shown);
    return isClaimed;
  }

  private claimClick(event: MouseEvent): boolean {
    if (event.defaultPrevented || event.button !== 0) return false;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return false;
    event.preventDefault();
    return true;
  }

  /** Focus the heading of a page after a navigation within the document. */
  heading = (heading: HTMLElement) => {
    if (this.hasNavigated) setTimeout(() => heading.focus()); // after other elements that focus themselves when mounted
  };

  private arrive() {
    this.hasNavigated = true;
    this.read();
  }

  private read() {
    const { pathname, search } = this.window.location;
    const query = new URLSearchParams(search);
    this.page = pageOf(pathname);
    if (this.page === 'repertoire' && query.get('part') === 'held') return this.goToInbox(query);
    this.model = query.get('model');
    this.reply = query.get('reply');
    this.part = REPERTOIRE_TABS.find((part) => part === query.get('part')) ?? 'replies';
    this.group = this.page === 'inbox' ? query.get('group') : null;
    this.shareId = query.get('id');
    this.replay = query.get('replay');
    const until = Number(query.get('until') ?? NaN);
    this.until = Number.isSafeInteger(until) ? until : null;
    if (this.page === 'chat') this.conversation = query.get('c');
  }

  /** The inbox was a part of the repertoire; its old address leads there. */
  private goToInbox(query: URLSearchParams) {
    this.page = 'inbox';
    this.model = query.get('model');
    this.group = null;
    this.window.history.replaceState(null, '', this.absolute(hrefOf('inbox', this.model)));
  }

  private push(href: string) {
    this.window.history.pushState(null, '', this.absolute(href));
  }

  private absolute(href: string): string {
    return new URL(href, this.window.location.href).href;
  }
}
