/* The types of `window.online`. The service shows this file as widget.d.ts, for those who write TypeScript. */

/** What a widget is made of. Only `service` is needed. */
export interface WidgetOptions {
  /** The address of the service, such as "https://chat.example.com/", with its path prefix if it has one. */
  service: string;
  /** The name of the model that answers, a ranker. Default: "chat". */
  model?: string | undefined;
  /** The element, or a selector of one, that the chat is put into. Default: none; a button opens a panel. */
  target?: Element | string | undefined;
  /** The name of the chat, which its head shows. */
  title?: string | undefined;
  /** What the empty chat says first. */
  greeting?: string | undefined;
  /** The color of buttons and questions: any CSS color. */
  accent?: string | undefined;
  /** Default: "auto", as the visitor's system is set. */
  theme?: 'light' | 'dark' | 'auto' | undefined;
  /** The corner of the button. Default: "bottom-right". */
  position?: 'bottom-right' | 'bottom-left' | undefined;
  /** The language of the widget. Default: that of the page, else the visitor's; English where the widget has none of these. */
  language?: 'en' | 'de' | undefined;
  /** Whether the panel is open at first. */
  open?: boolean | undefined;
}

/** An answer. text: null where the model knows no reply. */
export interface WidgetReply {
  question: string;
  text: string | null;
  predictionId: string;
  version: string;
}

/** Why something has failed.

    origin: the service does not list this page in `widget_origins`. visitors: it has no visitors (`public_teaching`).
    unreachable: it did not answer. refused: it answered with an error. */
export type WidgetErrorCode = 'origin' | 'visitors' | 'unreachable' | 'refused';

/** The events of a widget, by name, with what a listener is given. */
export interface WidgetEvents {
  /** The service has answered: questions can be asked. */
  ready: { teaching: 'on' | 'review' | 'off' };
  open: Record<string, never>;
  close: Record<string, never>;
  question: { question: string };
  reply: WidgetReply;
  /** A thumb or a correction was saved. held: a person checks it before it is learned. */
  feedback: { predictionId: string; given: 'up' | 'down' | 'correction'; isHeld: boolean };
  /** It has been learned: the next answer knows it. */
  learned: { predictionId: string; version: string };
  retracted: { predictionId: string };
  error: { code: WidgetErrorCode; message: string };
}

export interface Widget {
  readonly model: string;
  /** Whether the panel is open; always true in a `target`. */
  readonly isOpen: boolean;
  open(): void;
  close(): void;
  toggle(): void;
  /** Ask a question, as if it had been typed. Resolves to null where it could not be answered; the event `error` says why. */
  ask(question: string): Promise<WidgetReply | null>;
  /** Returns a function that ends it. */
  on<Name extends keyof WidgetEvents>(name: Name, listener: (detail: WidgetEvents[Name]) => void): () => void;
  /** Remove the widget from the page. */
  destroy(): void;
}

/** `window.online`. open, close, toggle and ask are those of the first widget of the page. */
export interface Widgets {
  /** The widgets of the page, in the order in which they were made. */
  readonly widgets: readonly Widget[];
  create(options: WidgetOptions): Widget;
  open(): void;
  close(): void;
  toggle(): void;
  ask(question: string): Promise<WidgetReply | null>;
  /** Listen to all widgets, also those that are made later. Returns a function that ends it. */
  on<Name extends keyof WidgetEvents>(
    name: Name,
    listener: (detail: WidgetEvents[Name], widget: Widget) => void,
  ): () => void;
  /** Remove all widgets. */
  destroy(): void;
}

declare global {
  interface Window {
    /** Undefined until widget.js has run, which the event `online:ready` of the window says. */
    online?: Widgets;
  }
}
