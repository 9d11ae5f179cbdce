/* What a visitor sees of one widget: a button and a panel, or the panel alone within an element of the page.

   host element -> shadow root -> .root -> launcher, panel (title, conversation, composer)

   The shadow root keeps the styles of the page and of the widget apart. A panel is a dialog: beside the page on large
   screens, and above all of it, which is inert then, on small ones. All texts are set as text.
*/

import type { Conversation, Turn } from './conversation';
import { colorOn } from './colors';
import { createElement, createIcon } from './elements';
import type { Messages } from './messages';
import type { WidgetOptions } from './public_types';
import style from './style.css?inline';
import { TurnView } from './turn_view';

const SMALL_SCREEN = '(max-width: 480px), (max-height: 480px)';
const PASSED_ON = ['keydown', 'keyup', 'keypress'] as const;

/** What the view asks for. ask: resolves to null where there is no answer. */
export interface Actions {
  open(): void;
  close(): void;
  connect(): void;
  ask(question: string): Promise<object | null>;
}

export class View {
  readonly host = document.createElement('online-chat');
  private readonly root = createElement('div', { class: 'root' });
  private readonly turns = createElement('ol', { class: 'turns' });
  private readonly intro = createElement('div', { class: 'intro' });
  private readonly scroller: HTMLElement;
  private readonly waiting = createElement('li', {});
  private readonly problem = createElement('div', { class: 'problem', role: 'alert' });
  private readonly announcer = createElement('p', { class: 'unseen', role: 'status' });
  private readonly field: HTMLTextAreaElement;
  private readonly panel: HTMLElement;
  private readonly launcher: HTMLButtonElement | null;
  private readonly views = new Map<Turn, TurnView>();
  private readonly schemes = matchMedia('(prefers-color-scheme: dark)');

  constructor(
    private options: WidgetOptions,
    private t: Messages,
    language: string,
    private conversation: Conversation,
    private actions: Actions,
    target: Element | null,
  ) {
    const title = options.title ?? t.title;
    this.scroller = createElement('div', { class: 'log', tabindex: '0', role: 'group', 'aria-label': t.log }, [
      ...[this.intro, this.turns],
    ]);
    this.field = createElement('textarea', {
      rows: '1',
      'aria-label': t.label,
      placeholder: t.label,
    });
    const isInline = target !== null;
    this.panel = createElement(isInline ? 'section' : 'dialog', { class: 'panel', 'aria-label': title }, [
      createElement('div', { class: 'head' }, [title, ...(isInline ? [] : [this.closeButton()])]),
      this.scroller,
      this.problem,
      this.composer(),
      this.announcer,
    ]);
    this.launcher = isInline ? null : this.launchButton();
    this.root.append(...(this.launcher ? [this.launcher] : []), this.panel);
    if (!isInline)
      for (const [key, value] of Object.entries({ role: 'region', 'aria-label': title }))
        this.root.setAttribute(key, value);
    this.root.lang = language;
    this.root.dataset['theme'] = options.theme ?? 'auto';
    this.root.dataset['position'] = options.position ?? 'bottom-right';
    this.closeOnEscape();
    this.attach(target);
    this.draw('');
  }

  get isOpen(): boolean {
    return this.launcher === null || (this.panel as HTMLDialogElement).open;
  }

  /** Open the panel. takesFocus: into the field of the question; a panel that opens by itself leaves it where it is, and is not
      opened on a small screen, which it would cover. */
  open(takesFocus: boolean) {
    const isSmall = matchMedia(SMALL_SCREEN).matches;
    if (!takesFocus && isSmall) return;
    if (!this.isOpen) {
      const dialog = this.panel as HTMLDialogElement;
      if (isSmall) dialog.showModal();
      else dialog.setAttribute('open', ''); // show() would take the focus
      this.launcher!.setAttribute('aria-label', this.t.close);
    }
    this.color();
    if (takesFocus) this.field.focus();
    this.scrollToEnd();
  }

  close() {
    if (!this.isOpen || this.launcher === null) return;
    const hadFocus = this.root.contains(this.shadow.activeElement);
    (this.panel as HTMLDialogElement).close();
    this.launcher.setAttribute('aria-label', this.t.open);
    if (hadFocus) this.launcher.focus();
  }

  hide() {
    this.host.hidden = true;
  }

  show() {
    this.host.hidden = false;
  }

  destroy() {
    this.schemes.removeEventListener('change', this.color);
    this.host.remove();
  }

  /** Show the present state. announced: what a screen reader is to say. */
  draw(announced: string) {
    const { conversation, t } = this;
    const { turns, pending, problem, teaching } = conversation;
    this.intro.hidden = turns.length > 0 || pending !== null;
    this.intro.replaceChildren(
      createElement('p', {}, [this.options.greeting ?? t.greeting]),
      createElement('p', { class: 'quiet' }, [teaching === 'review' ? t.review : t.rate]),
    );
    const isNew = turns.some((turn) => !this.views.has(turn)) || (pending !== null && !this.waiting.isConnected);
    for (const turn of turns) this.viewOf(turn).draw();
    this.drawWaiting(pending);
    if (problem !== this.problem.textContent) this.problem.textContent = problem;
    if (announced !== '') this.announcer.textContent = announced;
    if (isNew) this.scrollToEnd();
  }

  /** Say that the service cannot be reached, and let the visitor try again. */
  offerRetry(message: string) {
    const retry = createElement('button', { type: 'button' }, [this.t.retry]);
    retry.onclick = () => {
      this.field.focus(); // the button goes away
      this.actions.connect();
    };
    this.problem.replaceChildren(message, retry);
  }

  private get shadow(): ShadowRoot {
    return this.host.shadowRoot!;
  }

  private attach(target: Element | null) {
    const shadow = this.host.attachShadow({ mode: 'open' });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    shadow.adoptedStyleSheets = [sheet]; // allowed by every Content-Security-Policy, unlike a style element
    shadow.append(this.root);
    // Shortcuts of the page are not meant while somebody types here.
    for (const name of PASSED_ON) this.root.addEventListener(name, (event) => event.stopPropagation());
    const { accent } = this.options;
    if (accent !== undefined && CSS.supports('color', accent)) this.host.style.setProperty('--online-accent', accent);
    (target ?? document.body).append(this.host);
    this.schemes.addEventListener('change', this.color);
    this.color();
  }

  /** Choose black or white for texts on the accent, whatever the page has made of it. */
  private color = () => {
    const shown = this.launcher ?? this.shadow.querySelector('.primary')!;
    this.root.style.setProperty('--on-accent', colorOn(getComputedStyle(shown).backgroundColor));
  };

  private viewOf(turn: Turn): TurnView {
    const known = this.views.get(turn);
    if (known) return known;
    const view = new TurnView(this.conversation, turn, this.t, () => this.field.focus());
    this.views.set(turn, view);
    this.turns.append(view.element);
    return view;
  }

  private drawWaiting(question: string | null) {
    if (question === null) return this.waiting.remove();
    if (this.waiting.isConnected) return;
    this.waiting.replaceChildren(
      createElement('p', { class: 'question' }, [question]),
      createElement('p', { class: 'waiting' }, ['…']),
    );
    this.turns.append(this.waiting);
  }

  /** Scroll to the newest turn: to its end if it fits, otherwise to its beginning. */
  private scrollToEnd() {
    const newest = this.turns.lastElementChild as HTMLElement | null;
    if (newest === null) return;
    const { scroller } = this;
    const top = newest.offsetTop - scroller.offsetTop - 16;
    scroller.scrollTop = Math.min(scroller.scrollHeight - scroller.clientHeight, top);
  }

  private launchButton(): HTMLButtonElement {
    const { t, actions } = this;
    const button = createElement(
      'button',
      { class: 'launcher', type: 'button', 'aria-label': t.open, 'aria-haspopup': 'dialog' },
      [createIcon('chat')],
    );
    button.onclick = () => (this.isOpen ? actions.close() : actions.open());
    return button;
  }

  private closeButton(): HTMLButtonElement {
    const button = createElement('button', { type: 'button', 'aria-label': this.t.close }, [createIcon('close')]);
    button.onclick = () => this.actions.close();
    return button;
  }

  /** Escape closes the panel, and so does the back button of a phone. */
  private closeOnEscape() {
    const { actions } = this;
    this.root.onkeydown = (event) => {
      if (event.key !== 'Escape' || event.isComposing || !this.isOpen) return;
      event.preventDefault();
      actions.close();
    };
    this.panel.addEventListener('cancel', (event) => {
      event.preventDefault();
      actions.close();
    });
  }

  private composer(): HTMLFormElement {
    const { field, conversation, actions, t } = this;
    const form = createElement('form', { class: 'composer' }, [
      field,
      createElement('button', { class: 'primary', type: 'submit' }, [t.ask]),
    ]);
    const send = async () => {
      const question = field.value.trim();
      if (question === '' || conversation.pending !== null) return;
      field.value = '';
      const reply = await actions.ask(question);
      if (reply === null && field.value === '') field.value = question; // to be sent again
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      void send();
    };
    field.onkeydown = (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      void send();
    };
    return form;
  }
}
