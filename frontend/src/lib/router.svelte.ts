/* Which page is shown: the last part of the path, and what it is about, where that is named: a model, a conversation, a reply.

   click on a link -> history -> page, model -> the page is mounted -> its heading takes the focus
   back, forward  ----------/
*/

import { PAGES, type PageName } from './pages';

export { PAGES, type PageName };

/** What the router needs of a window, so that a test can bring its own. */
export interface Place {
  location: { pathname: string; search: string; href: string; origin: string };
  history: Record<'pushState' | 'replaceState', (data: unknown, unused: string, url: string) => void>;
  addEventListener(type: 'popstate', heard: () => void): void;
}

const isPage = (name: string): name is PageName => (PAGES as readonly string[]).includes(name);

/** The chat is the folder itself; whatever folder the service shows its pages under, they are neighbours. */
export function pageOf(pathname: string): PageName {
  const name = pathname.slice(pathname.lastIndexOf('/') + 1);
  return isPage(name) ? name : 'chat';
}

export function hrefOf(page: PageName, model?: string | null): string {
  const query = model ? `?${new URLSearchParams({ model })}` : '';
  return `./${page === 'chat' ? '' : page}${query}`;
}

export const hrefOfConversation = (id: string | null) => (id === null ? './' : `./?${new URLSearchParams({ c: id })}`);

export const PARTS = ['replies', 'unanswered', 'file'] as const;
export type Part = (typeof PARTS)[number];

/** What of the repertoire is shown: a reply by its id, or one of the page's parts; without either, all replies. */
export interface Shown {
  reply?: string;
  part?: Part;
}

export function hrefOfRepertoire({ reply, part }: Shown, model: string | null = null): string {
  const about = { ...(model === null ? {} : { model }), ...(reply === undefined ? {} : { reply }) };
  const query = new URLSearchParams({ ...about, ...(part === undefined || part === 'replies' ? {} : { part }) });
  return `./repertoire${query.size > 0 ? `?${query}` : ''}`;
}

export class Router {
  page = $state<PageName>('chat');
  /** The model that the address names; null: the page's own choice. */
  model = $state<string | null>(null);

  /** The conversation that the chat shows, also while another page is shown; null: one that nothing was said in yet. */
  conversation = $state<string | null>(null);

  /** What the repertoire shows; null: no single reply. */
  reply = $state<string | null>(null);
  part = $state<Part>('replies');

  private moved = false;

  constructor(private place: Place) {
    this.read();
    place.addEventListener('popstate', () => this.arrive());
  }

  go(page: PageName, model?: string | null) {
    this.push(page === 'chat' ? hrefOfConversation(this.conversation) : hrefOf(page, model));
    this.arrive();
  }

  /** Shows that conversation of the chat; null: a new one. */
  goToConversation(id: string | null) {
    this.push(hrefOfConversation(id));
    this.read(); // no new page: the focus is the list's to give
  }

  /** The conversation that is shown has begun: from now on the address leads back to it. */
  nameConversation(id: string) {
    this.conversation = id;
    if (this.page !== 'chat') return;
    this.place.history.replaceState(null, '', this.absolute(hrefOfConversation(id)));
  }

  /** For links: what the browser would do with it otherwise (a new tab, a download) stays the browser's. */
  follow(event: MouseEvent, page: PageName, model?: string | null) {
    if (!this.takes(event)) return;
    const within = this.reply !== null || this.part !== 'replies';
    if (page !== this.page || (model ?? null) !== this.model || within) this.go(page, model);
  }

  /** The same for links into the repertoire, from wherever; those among its parts leave the focus where it is. */
  followInto(event: MouseEvent, shown: Shown, model: string | null = this.model) {
    if (!this.takes(event)) return;
    this.push(hrefOfRepertoire(shown, model));
    if (shown.part === undefined) this.arrive();
    else this.read();
  }

  private takes(event: MouseEvent): boolean {
    if (event.defaultPrevented || event.button !== 0) return false;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return false;
    event.preventDefault();
    return true;
  }

  /** For the heading of a page: it takes the focus when somebody came here, not when the document was opened here. */
  heading = (heading: HTMLElement) => {
    if (this.moved) setTimeout(() => heading.focus()); // after whatever else on the page asks for it at once
  };

  private arrive() {
    this.moved = true;
    this.read();
  }

  private read() {
    const { pathname, search } = this.place.location;
    const query = new URLSearchParams(search);
    this.page = pageOf(pathname);
    this.model = query.get('model');
    this.reply = query.get('reply');
    this.part = PARTS.find((part) => part === query.get('part')) ?? 'replies';
    if (this.page === 'chat') this.conversation = query.get('c');
  }

  private push(href: string) {
    this.place.history.pushState(null, '', this.absolute(href));
  }

  private absolute(href: string): string {
    return new URL(href, this.place.location.href).href;
  }
}
