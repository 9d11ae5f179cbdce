/* Drawings, what the model takes them for, and what they are said to be.

   board --featuresOf--> dry run --> guess               while it is drawn, and whenever the model has learned
   a label --> recorded prediction --> Feedback --> Drawn: what it was taken for before it was learned, right or wrong
*/

import type { DrawApi } from './api';
import { Board, type Cell } from './board.svelte';
import type { ServerEvent } from './events';
import { Feedback, type Around } from './feedback.svelte';
import { gathered } from './gathered';
import { featuresOf, type Point } from './ink';
import { Live, type Pause } from './live.svelte';
import type { Curve, Guess, LabelShown } from './schema';
import { ASK_AGAIN_MS } from './turn.svelte';
import { messageOf } from './words';

export const DIGITS = [...'0123456789'];
const LOOK_EVERY_MS = 60; // between two looks at a drawing that grows
const REST_MS = 500; // between two looks at what others have taught

/** One drawing that somebody named. guessed: what it was taken for before that; null: for nothing. */
export interface Drawn {
  label: string;
  guessed: string | null;
  feedback: Feedback;
}

interface Outside {
  api: DrawApi;
  user: string;
  newId: () => string;
  pause: Pause;
}

export class Draw {
  readonly board = new Board();
  readonly live: Live;
  guess = $state.raw<Guess | null>(null);
  /** What was said about the drawing that is on the board; null while nothing was. */
  told = $state.raw<Drawn | null>(null);
  drawn = $state<Drawn[]>([]);
  curve = $state.raw<Curve | null>(null);
  problem = $state<string | null>(null);
  busy = $state(false);

  private known = $state.raw<LabelShown[]>([]);
  private named = $state<string[]>([]);

  /** Those that still stand: what was taken back does not count. */
  standing = $derived(this.drawn.filter(({ feedback }) => feedback.stands));
  right = $derived(this.standing.filter(({ label, guessed }) => label === guessed).length);
  /** The digits, then whatever else was invented here or elsewhere. */
  classes = $derived.by(() => {
    const retired = new Set(this.known.filter(({ active }) => !active).map(({ label }) => label));
    const guessed = Object.keys(this.guess?.probabilities ?? {}).sort();
    const all = [...DIGITS, ...this.known.map(({ label }) => label), ...guessed, ...this.named];
    return [...new Set(all)].filter((label) => !retired.has(label));
  });
  features = $derived(featuresOf(this.board.strokes));

  private api: DrawApi;
  private user: string;
  private around: Around;
  private look: () => void;
  private refresh: () => void;

  constructor({ api, user, newId, pause }: Outside) {
    this.api = api;
    this.user = user;
    this.live = new Live(api, pause, (event) => this.hear(event));
    this.around = { api, live: this.live, user, newId, complain: (error) => this.complain(error) };
    this.look = gathered(() => this.guessNow(), pause, LOOK_EVERY_MS);
    this.refresh = gathered(() => this.askAround(), pause, REST_MS);
  }

  start() {
    this.live.start();
    void this.listLabels();
    this.refresh();
  }

  stop() {
    this.live.stop();
  }

  // drawing

  /** A stroke after the drawing was named begins the next one. */
  begin(at: Point) {
    this.turnOver();
    this.board.begin(at);
    this.look();
  }

  extend(to: Point) {
    this.board.extend(to);
    this.look();
  }

  togglePen() {
    if (!this.board.penDown) this.turnOver();
    this.board.togglePen();
    this.look();
  }

  move(columns: number, rows: number): Cell | null {
    this.board.move(columns, rows);
    if (this.board.penDown) this.look();
    return this.board.cell;
  }

  takeBackStroke() {
    if (this.told) return;
    this.board.takeBackStroke();
    this.look();
  }

  clear() {
    this.board.clear();
    this.told = null;
    this.guess = null;
  }

  private turnOver() {
    if (this.told) this.clear();
  }

  // naming

  /** Say what it is. The same again takes that back; something else takes its place. */
  async name(label: string): Promise<void> {
    const features = this.features;
    if (features === null || this.busy) return;
    const before = this.told;
    if (before?.label === label && before.feedback.stands) return this.undo();
    this.busy = true;
    this.problem = null;
    try {
      await this.tell(label, features, before);
    } catch (error) {
      this.complain(error);
    }
    this.busy = false;
  }

  /** A name that nobody has used yet is a class of its own from here on. */
  async invent(name: string): Promise<void> {
    const label = name.trim();
    if (label === '' || this.features === null) return;
    if (!this.classes.includes(label)) this.named.push(label);
    await this.name(label);
  }

  /** Yes, it is what you take it for. */
  async agree(): Promise<void> {
    const label = this.guess?.label;
    if (label && !this.told) await this.name(label);
  }

  /** Takes back what was said last and still stands; the drawing, if it is still there, may be named anew. */
  async undo(): Promise<void> {
    const last = this.drawn.findLast(({ feedback }) => feedback.stands);
    if (!last) return;
    if (this.told?.feedback === last.feedback) this.told = null;
    await last.feedback.retract().catch((error: unknown) => this.complain(error));
  }

  private async tell(label: string, features: number[], before: Drawn | null) {
    const answer = await this.api.predict({ instances: [features], user: this.user, record: true });
    const again = (offset: number) => this.askAgain(features, offset);
    const feedback = new Feedback(this.around, answer.prediction_ids[0] ?? '', { label }, again);
    const drawn = { label, guessed: answer.predictions[0]?.label ?? null, feedback };
    this.drawn.push(drawn);
    this.told = drawn;
    await feedback.send(Promise.resolve(before?.feedback.stands ? before.feedback.retract() : undefined));
  }

  private async askAgain(features: number[], min_offset: number): Promise<string | null> {
    const dry = { user: this.user, record: false, min_offset, timeout_ms: ASK_AGAIN_MS };
    const { predictions } = await this.api.predict({ instances: [features], ...dry });
    this.look();
    return predictions[0]?.label ?? null;
  }

  // asking

  private async guessNow() {
    const features = this.features;
    if (features === null) {
      this.guess = null;
      return;
    }
    try {
      const answer = await this.api.predict({ instances: [features], user: this.user, record: false });
      if (this.features !== null) this.guess = answer.predictions[0] ?? null;
    } catch (error) {
      this.complain(error);
    }
  }

  private hear(event: ServerEvent) {
    this.refresh();
    if (event.type !== 'learned' && event.type !== 'refused') this.look();
  }

  /** Once: what is invented elsewhere meanwhile comes with the next guess. */
  private async listLabels() {
    this.known = await this.api.labels().catch(() => this.known);
  }

  private async askAround() {
    try {
      this.curve = await this.api.curve();
    } catch (error) {
      this.complain(error);
    }
  }

  private complain(error: unknown) {
    this.problem = messageOf(error);
  }
}
