/* Drawings, the model's guesses, and the names that the user gives them.

   board --featuresOf--> dry run --> guess               while the user draws, and after each version
   name --> recorded prediction --> Feedback --> NamedDrawing, with the guess made before it was learned
*/

import type { DrawApi } from '../api';
import { DrawingBoard, type Cell } from './drawing_board.svelte';
import type { ServerEvent } from '../ui/events';
import { Feedback, type FeedbackContext } from '../ui/feedback.svelte';
import { coalesce } from '../ui/coalesce';
import { computeFeatures, type Point } from './ink';
import { LiveStatus, type Pause } from '../ui/live_status.svelte';
import type { Rights } from '../ui/session.svelte';
import type { Curve, Guess, ClassInfo } from '../schema';
import { RECHECK_TIMEOUT_MS } from '../chat/turn.svelte';
import { messageOf } from '../ui/wording';

export const DIGITS = [...'0123456789'];
const GUESS_EVERY_MS = 60; // pause between two guesses while the drawing grows
const REST_MS = 500; // pause between two requests for the curve

/** One drawing with its name. guessBefore: the model's guess before it was named; null for none. */
export interface NamedDrawing {
  label: string;
  guessBefore: string | null;
  feedback: Feedback;
}

interface Dependencies {
  api: DrawApi;
  newId: () => string;
  pause: Pause;
  rights: Rights;
}

export class DrawSession {
  readonly board = new DrawingBoard();
  readonly live: LiveStatus;
  guess = $state.raw<Guess | null>(null);
  /** The name given to the drawing on the board; null while it has none. */
  current = $state.raw<NamedDrawing | null>(null);
  drawings = $state<NamedDrawing[]>([]);
  curve = $state.raw<Curve | null>(null);
  problem = $state<string | null>(null);
  busy = $state(false);

  private knownClasses = $state.raw<ClassInfo[]>([]);
  private newClasses = $state<string[]>([]);

  /** Drawings whose name was not taken back. */
  activeDrawings = $derived(this.drawings.filter(({ feedback }) => feedback.isActive));
  correctCount = $derived(
    this.activeDrawings.filter(({ label, guessBefore }) => label === guessBefore).length,
  );
  /** The digits, then the classes added here or elsewhere. */
  classes = $derived.by(() => {
    const retired = new Set(
      this.knownClasses.filter(({ active }) => !active).map(({ label }) => label),
    );
    const guessed = Object.keys(this.guess?.probabilities ?? {}).sort();
    const all = [
      ...(this.rights.teaching === 'off' ? [] : DIGITS), // naming a new one teaches it
      ...this.knownClasses.map(({ label }) => label),
      ...guessed,
      ...this.newClasses,
    ];
    return [...new Set(all)].filter((label) => !retired.has(label));
  });
  features = $derived(computeFeatures(this.board.strokes));

  readonly rights: Rights;
  private api: DrawApi;
  private context: FeedbackContext;
  private updateGuess: () => void;
  private refresh: () => void;

  constructor({ api, newId, pause, rights }: Dependencies) {
    [this.api, this.rights] = [api, rights];
    this.live = new LiveStatus(api, pause, (event) => this.onEvent(event));
    this.context = { api, live: this.live, newId, complain: (error) => this.complain(error) };
    this.updateGuess = coalesce(() => this.guessNow(), pause, GUESS_EVERY_MS);
    this.refresh = coalesce(() => this.loadCurve(), pause, REST_MS);
  }

  start() {
    this.live.start();
    void this.loadClasses();
    this.refresh();
  }

  stop() {
    this.live.stop();
  }

  // drawing

  /** Begin a stroke. After the drawing was named, it begins the next drawing. */
  begin(at: Point) {
    this.startNextIfNamed();
    this.board.begin(at);
    this.updateGuess();
  }

  extend(to: Point) {
    this.board.extend(to);
    this.updateGuess();
  }

  togglePen() {
    if (!this.board.penDown) this.startNextIfNamed();
    this.board.togglePen();
    this.updateGuess();
  }

  move(columns: number, rows: number): Cell | null {
    this.board.move(columns, rows);
    if (this.board.penDown) this.updateGuess();
    return this.board.cell;
  }

  removeLastStroke() {
    if (this.current) return;
    this.board.removeLastStroke();
    this.updateGuess();
  }

  clear() {
    this.board.clear();
    this.current = null;
    this.guess = null;
  }

  private startNextIfNamed() {
    if (this.current) this.clear();
  }

  // naming

  /** Name the drawing. The same name again takes it back; another name replaces it. */
  async name(label: string): Promise<void> {
    const features = this.features;
    if (features === null || this.busy || !this.mayName(label)) return;
    const before = this.current;
    if (before?.label === label && before.feedback.isActive) return this.undo();
    this.busy = true;
    this.problem = null;
    try {
      await this.sendName(label, features, before);
    } catch (error) {
      this.complain(error);
    }
    this.busy = false;
  }

  private mayName(label: string): boolean {
    const { mayRate, teaching } = this.rights;
    return mayRate && (teaching !== 'off' || this.classes.includes(label));
  }

  /** Name the drawing with a name that may be new, which adds a class. */
  async nameNewClass(name: string): Promise<void> {
    const label = name.trim();
    if (label === '' || this.features === null) return;
    if (!this.classes.includes(label)) this.newClasses.push(label);
    await this.name(label);
  }

  /** Confirm the guess. */
  async confirmGuess(): Promise<void> {
    const label = this.guess?.label;
    if (label && !this.current) await this.name(label);
  }

  /** Take back the last name that is active. A drawing still on the board can be named again. */
  async undo(): Promise<void> {
    const last = this.drawings.findLast(({ feedback }) => feedback.isActive);
    if (!last) return;
    if (this.current?.feedback === last.feedback) this.current = null;
    await last.feedback.retract().catch((error: unknown) => this.complain(error));
  }

  private async sendName(label: string, features: number[], before: NamedDrawing | null) {
    const answer = await this.api.predict({ instances: [features], record: true });
    const recheck = (offset: number) => this.runRecheck(features, offset);
    const feedback = new Feedback(this.context, answer.prediction_ids[0] ?? '', { label }, recheck);
    const drawing = { label, guessBefore: answer.predictions[0]?.label ?? null, feedback };
    this.drawings.push(drawing);
    this.current = drawing;
    await feedback.send(
      Promise.resolve(before?.feedback.isActive ? before.feedback.retract() : undefined),
    );
  }

  private async runRecheck(features: number[], min_offset: number): Promise<string | null> {
    const options = { record: false, min_offset, timeout_ms: RECHECK_TIMEOUT_MS };
    const { predictions } = await this.api.predict({ instances: [features], ...options });
    this.updateGuess();
    return predictions[0]?.label ?? null;
  }

  // requests

  private async guessNow() {
    const features = this.features;
    if (features === null) {
      this.guess = null;
      return;
    }
    try {
      const answer = await this.api.predict({
        instances: [features],
        record: false,
      });
      if (this.features !== null) this.guess = answer.predictions[0] ?? null;
    } catch (error) {
      this.complain(error);
    }
  }

  private onEvent(event: ServerEvent) {
    this.refresh();
    if (event.type !== 'learned' && event.type !== 'refused') this.updateGuess();
  }

  /** Called once: classes added elsewhere later arrive with the next guess. */
  private async loadClasses() {
    this.knownClasses = await this.api.classes().catch(() => this.knownClasses);
  }

  private async loadCurve() {
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
