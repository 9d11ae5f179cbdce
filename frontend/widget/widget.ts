/* The chat on somebody else's page: <script src="https://SERVICE/widget.js" data-model="chat"></script>

   script tag -> options -> Widget: Service (requests), Conversation (state), View (elements)
   window.online -> every widget of the page, and new ones
*/

import { Conversation } from './conversation';
import { chooseLanguage, MESSAGES } from './messages';
import { folderOf, readOptions } from './options';
import type { Widget, WidgetEvents, WidgetOptions, WidgetReply, Widgets } from './public_types';
import { Service, ServiceError } from './service';
import { keptIn } from './storage';
import { View } from './view';

type Name = keyof WidgetEvents;
type Listener = (detail: never, widget: Widget) => void;

/** Listeners by the name of their event. */
class Listeners {
  private all: { name: Name; listener: Listener }[] = [];

  add(name: Name, listener: Listener): () => void {
    const entry = { name, listener };
    this.all.push(entry);
    return () => (this.all = this.all.filter((one) => one !== entry));
  }

  /** A listener that fails ends nothing: its error is reported as any other of the page. */
  call(name: Name, detail: WidgetEvents[Name], widget: Widget) {
    for (const each of this.all)
      if (each.name === name)
        try {
          each.listener(detail as never, widget);
        } catch (error) {
          reportError(error);
        }
  }
}

const widgets: Widget[] = [];
const everywhere = new Listeners();

class OnlineWidget implements Widget {
  readonly model: string;
  private readonly listeners = new Listeners();
  private readonly service: Service;
  private readonly conversation: Conversation;
  private readonly view: View;
  private connection: Promise<boolean> | null = null;

  /** Raises an Error where the target is not on the page. */
  constructor(options: WidgetOptions) {
    this.model = options.model ?? 'chat';
    const base = folderOf(options.service.replace(/\/?$/, '/'));
    const page = document.documentElement.lang;
    const language = chooseLanguage([options.language, page, ...navigator.languages]);
    const t = MESSAGES[language];
    this.service = new Service(base, t, keptIn('localStorage', `online visitor ${base}`), location.origin);
    const place = widgets.filter(({ model }) => model === this.model).length;
    this.conversation = new Conversation({
      ...{ service: this.service, model: this.model, t },
      store: keptIn('sessionStorage', `online conversation ${base} ${this.model} ${place}`),
      emit: (name, detail) => this.emit(name, detail),
      changed: (announced) => this.view.draw(announced),
    });
    const actions = {
      open: () => this.open(),
      close: () => this.close(),
      connect: () => void this.connect(),
      ask: (question: string) => this.ask(question),
    };
    const target = findTarget(options.target);
    this.view = new View(options, t, language, this.conversation, actions, target);
    this.view.hide(); // until the service allows this page to show it
    void this.connect().then((isAllowed) => {
      if (isAllowed && options.open && !this.isOpen) this.show(false);
    });
  }

  get isOpen(): boolean {
    return this.view.isOpen;
  }

  open(): void {
    if (!this.view.host.hidden) this.show(true);
  }

  close(): void {
    if (!this.isOpen) return;
    this.view.close();
    if (!this.isOpen) this.emit('close', {});
  }

  toggle(): void {
    if (this.isOpen) this.close();
    else this.open();
  }

  async ask(question: string): Promise<WidgetReply | null> {
    return (await this.connect()) ? this.conversation.ask(question) : null;
  }

  on<N extends Name>(name: N, listener: (detail: WidgetEvents[N]) => void): () => void {
    return this.listeners.add(name, listener);
  }

  destroy(): void {
    this.view.destroy();
    if (widgets.includes(this)) widgets.splice(widgets.indexOf(this), 1);
  }

  private show(takesFocus: boolean) {
    const wasOpen = this.isOpen;
    this.view.open(takesFocus);
    if (!wasOpen && this.isOpen) this.emit('open', {});
  }

  /** Connect once, and again after it has failed. Returns whether questions can be asked. */
  private connect(): Promise<boolean> {
    this.connection ??= this.start().catch((error: unknown) => {
      this.connection = null;
      this.conversation.complain(error);
      if (error instanceof ServiceError && error.code === 'unreachable') {
        this.view.show();
        this.view.offerRetry(error.message);
      }
      return false;
    });
    return this.connection;
  }

  private async start(): Promise<boolean> {
    const { conversation } = this;
    conversation.teaching = await this.service.connect();
    await conversation.restore();
    conversation.problem = '';
    this.view.show();
    this.view.draw('');
    this.emit('ready', { teaching: conversation.teaching });
    return true;
  }

  private emit<N extends Name>(name: N, detail: WidgetEvents[N]) {
    this.listeners.call(name, detail, this);
    everywhere.call(name, detail, this);
  }
}

/** Raises an Error where there is no such element. */
function findTarget(target: Element | string | undefined): Element | null {
  if (target === undefined) return null;
  const found = typeof target === 'string' ? document.querySelector(target) : target;
  if (found === null) throw new Error(`online: this page has no element ${JSON.stringify(target)}`);
  return found;
}

const api: Widgets = {
  get widgets() {
    return [...widgets];
  },
  create(options) {
    const widget = new OnlineWidget(options);
    widgets.push(widget);
    return widget;
  },
  open: () => widgets[0]?.open(),
  close: () => widgets[0]?.close(),
  toggle: () => widgets[0]?.toggle(),
  ask: async (question) => (await widgets[0]?.ask(question)) ?? null,
  on: (name, listener) => everywhere.add(name, listener),
  destroy: () => [...widgets].forEach((widget) => widget.destroy()),
};

/** Make the widget of a script tag, once the page is there to put it into. */
function begin(script: HTMLScriptElement | SVGScriptElement | null) {
  const known = window.online; // of the first script, where a page has several; or an element whose id is "online"
  const online = known && 'create' in known ? known : (window.online = api);
  if (script instanceof HTMLScriptElement && script.dataset['auto'] !== 'false') {
    const create = () => online.create(readOptions(script));
    if (document.readyState === 'loading') addEventListener('DOMContentLoaded', create, { once: true });
    else create();
  }
  if (online === api) dispatchEvent(new CustomEvent('online:ready'));
}

begin(document.currentScript);
