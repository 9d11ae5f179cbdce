/* Drawings, the model's guesses, and the names that the user gives them.

   board --featuresOf--> dry run --> guess               while the user draws, and after each version
   name --> recorded prediction --> Feedback --> NamedDrawing, with the guess made before it was learned
                                       +--> Gallery: all drawings that were taught, also before this visit
*/

import { ApiError } from '../http';
import type { Offlineable } from '../api/model';
import type { DrawApi } from '../api/draw';
import { DrawingBoard, type Cell } from './drawing_board.svelte';
import { KnownDrawings, opinionOf, type Opinion } from './confidence';
import { Gallery } from './gallery.svelte';
import type { ServerEvent } from '../ui/events';
import { Feedback, type FeedbackContext } from '../ui/feedback.svelte';
import { coalesce } from '../ui/coalesce';
import { computeFeatures, type Point } from './ink';
import { LiveStatus, type Pause } from '../ui/live_status.svelte';
import { problemOf } from '../ui/problems';
import type { Rights } from '../ui/session.svelte';
import { RejectionNotices } from './rejection_notices.svelte';
import type { Sketches, Storage } from './sketches';
import type { Curve, Guess, ClassInfo, TaughtExample } from '../schema';
import { RECHECK_TIMEOUT_MS } from '../chat/turn.svelte';

export const DIGITS = [...'0123456789'];
const GUESS_EVERY_MS = 150; // pause between two guesses while the drawing grows: 400 of the 600 requests in a minute
const REST_MS = 500; // pause between two requests for what is known, and for the curve
const MAX_PAUSE_S = 60; // without guesses, after too many requests
const TOO_MANY = 429;
const BLANK = new Array<number>(64).fill(0);
/** A status comes first after a break, in which other events may have been missed. */
const CHANGES_GALLERY = new Set(['status', 'learned', 'refused', 'retracted', 'rejected', 'inbox']);
const MAX_GUESSED = 20; // classes that a guess lists, by default

/** One drawing with its name. guessBefore: the model's guess before it was named; null for none. */
export interface NamedDrawing {
  label: string;
  guessBefore: string | null;
  /** Whether the model knew the name before, so that it could have guessed it. */
  wasKnown: boolean;
  feedback: Feedback;
}

interface Dependencies {
  api: Offlineable<DrawApi>;
  newId: () => string;
  pause: Pause;
  rights: Rights;
  sketches: Sketches;
  storage: Storage | null;
}

export class DrawSession {
  readonly board = new DrawingBoard();
  readonly live: LiveStatus;
  readonly gallery: Gallery;
  readonly notices: RejectionNotices;
  guess = $state.raw<Guess | null>(null);
  /** The name given to the drawing on the board; null while it has none. */
  current = $state.raw<NamedDrawing | null>(null);
  drawings = $state<NamedDrawing[]>([]);
  /** The name given last, until the next drawing begins. */
  lastNamed = $state.raw<NamedDrawing | null>(null);
  curve = $state.raw<Curve | null>(null);
  problem = $state<string | null>(null);
  busy = $state(false);

  private listed = $state.raw<ClassInfo[]>([]);
  /** Classes of the last guess; null before the first one. */
  private guessed = $state.raw<string[] | null>(null);
  private newClasses = $state<string[]>([]);
  private showsCurve = false;
  private waiting = false; // after too many requests

  /** Drawings whose name was not taken back. */
  activeDrawings = $derived(this.drawings.filter(({ feedback }) => feedback.isActive));
  /** Those that count as guesses: a name that was new, or waits for a curator, could not have been guessed. */
  judgedDrawings = $derived(
    this.activeDrawings.filter(
      ({ feedback, wasKnown }) => wasKnown && (feedback.saved || feedback.waiting) && !feedback.held,
    ),
  );
  correctCount = $derived(this.judgedDrawings.filter(({ label, guessBefore }) => label === guessBefore).length);
  /** How many of the newest drawings in a row were guessed right. */
  streak = $derived.by(() => {
    const wrong = this.activeDrawings.findLastIndex(({ label, guessBefore }) => label !== guessBefore);
    return this.activeDrawings.length - 1 - wrong;
  });
  /** Whether the drawing on the board was guessed right, by a name that was not refused. */
  isGuessed = $derived(
    this.current !== null && this.current.label === this.current.guessBefore && this.current.feedback.refused === null,
  );
  /** Whether no drawing is on the board. */
  isFree = $derived(this.board.empty && this.current === null);
  /** The classes that the model knows now and those that were just named here, in a steady order. */
  classes = $derived.by(() => {
    const retired = new Set(this.listed.filter(({ active }) => !active).map(({ label }) => label));
    const guessed = this.guessed ?? [];
    const isKnown = ({ label }: ClassInfo) =>
      this.guessed === null || guessed.length >= MAX_GUESSED || guessed.includes(label);
    const known = [
      ...this.listed.filter(isKnown).map(({ label }) => label),
      ...this.newClasses.filter((label) => !this.isRefused(label)),
      ...[...guessed].sort(),
    ];
    return [...new Set(known)].filter((label) => !retired.has(label));
  });
  /** Names that were used before, of which nothing is known any more. */
  formerNames = $derived(
    this.listed.filter(({ label, active }) => active && !this.classes.includes(label)).map(({ label }) => label),
  );
  features = $derived(computeFeatures(this.board.strokes));
  /** The drawings that were learned, as far as this page may see them. */
  private known = $derived.by(() => {
    const { shown, whose } = this.gallery;
    const learned = shown.map(({ label, count, examples }) => {
      const kept = examples.flatMap(({ input, status }) => (input !== null && status !== 'held' ? [input] : []));
      return { label, count, drawings: kept };
    });
    const listed = new Set(shown.map(({ label }) => label));
    const isComplete = whose === 'everyone' || this.classes.every((label) => listed.has(label));
    return new KnownDrawings(learned, isComplete);
  });
  opinion = $derived<Opinion | null>(
    this.guess && this.features ? opinionOf(this.guess, this.features, this.known) : null,
  );

  readonly rights: Rights;
  private api: Offlineable<DrawApi>;
  private sketches: Sketches;
  private pause: Pause;
  private context: FeedbackContext;
  private updateGuess: () => void;
  private refresh: () => void;

  constructor({ api, newId, pause, rights, sketches, storage }: Dependencies) {
    [this.api, this.pause, this.rights, this.sketches] = [api, pause, rights, sketches];
    const complain = (error: unknown) => this.complain(error);
    this.live = new LiveStatus(api, pause, (event) => this.onEvent(event));
    this.gallery = new Gallery({ api, sketches, newId, pause, complain });
    this.notices = new RejectionNotices(storage);
    this.context = { api, live: this.live, newId, complain };
    this.updateGuess = coalesce(() => this.guessNow(), pause, GUESS_EVERY_MS);
    this.refresh = coalesce(() => this.loadKnown(), pause, REST_MS);
  }

  start() {
    this.live.start();
    void this.loadClasses();
    this.gallery.refresh();
    this.refresh();
  }

  stop() {
    this.live.stop();
  }

  /** Load the curve, and keep it up to date from now on. */
  showCurve() {
    this.showsCurve = true;
    this.refresh();
  }

  /** Whether a name was refused, and no other drawing of it is learned or waits. */
  private isRefused(label: string): boolean {
    const named = this.drawings.filter((one) => one.label === label).map((one) => one.feedback);
    return named.some(({ refused }) => refused !== null) && !named.some(({ isActive }) => isActive);
  }

  // drawing

  /** Begin a stroke. After the drawing was named, it begins the next drawing. */
  begin(at: Point) {
    this.startNext();
    this.board.begin(at);
    this.updateGuess();
  }

  extend(to: Point) {
    this.board.extend(to);
    this.updateGuess();
  }

  togglePen() {
    if (!this.board.penDown) this.startNext();
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
    this.problem = null;
    this.board.clear();
    this.current = null;
    this.guess = null;
  }

  private startNext() {
    if (this.current) this.clear();
    if (this.board.empty) this.lastNamed = null;
  }

  // naming

  /** Name the drawing. The same name again takes it back; another name replaces it. */
  async name(label: string): Promise<void> {
    const features = this.features;
    if (features === null || this.busy || !this.mayName(label)) return;
    const before = this.current;
    if (before?.label === label && before.feedback.isActive) return this.undo();
    if (!this.classes.includes(label)) this.newClasses.push(label);
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
    const label = this.knownName(name.trim());
    if (label === '' || this.features === null) return;
    await this.name(label);
  }

  /** The class that has this name, in whatever case it was typed: "Star" does not become another class than "star". */
  private knownName(name: string): string {
    const isSame = (label: string) => label.toLowerCase() === name.toLowerCase();
    return this.classes.includes(name) ? name : (this.classes.find(isSame) ?? name);
  }

  /** Confirm the guess. */
  async confirmGuess(): Promise<void> {
    const label = this.guess?.label;
    if (label && !this.current) await this.name(label);
  }

  /** Take back the last name that is active. A drawing still on the board can be named again. */
  async undo(): Promise<void> {
    const last = this.drawings.findLast(({ feedback }) => feedback.isActive);
    if (last) await this.retract(last).catch((error: unknown) => this.complain(error));
    this.gallery.refresh();
  }

  private async retract(drawing: NamedDrawing): Promise<void> {
    if (this.current?.feedback === drawing.feedback) this.current = null;
    this.lastNamed = drawing;
    await drawing.feedback.retract();
  }

  private async sendName(label: string, features: number[], before: NamedDrawing | null) {
    const answer = await this.api.predict({ instances: [features], record: true });
    const recheck = (offset: number) => this.runRecheck(features, offset);
    const feedback = new Feedback(this.context, answer.prediction_ids[0] ?? '', { label }, recheck);
    // Another name for the same drawing does not change what was guessed before it was named.
    const guess = answer.predictions[0] ?? null;
    const guessBefore = before ? before.guessBefore : (guess?.label ?? null);
    const drawing = { label, guessBefore, wasKnown: this.isAmong(guess, label), feedback };
    this.drawings.push(drawing);
    this.current = drawing;
    this.lastNamed = drawing;
    this.sketches.keep(feedback.id, this.board.strokes);
    await feedback.send(Promise.resolve(before?.feedback.isActive ? before.feedback.retract() : undefined));
    this.gallery.refresh();
  }

  /** Whether a guess could have been this class. It lists only the likeliest of many classes. */
  private isAmong(guess: Guess | null, label: string): boolean {
    const guessed = Object.keys(guess?.probabilities ?? {});
    const isListed = this.listed.some((one) => one.label === label && one.active);
    return guess?.label === label || guessed.includes(label) || (guessed.length >= MAX_GUESSED && isListed);
  }

  private async runRecheck(features: number[], min_offset: number): Promise<string | null> {
    const options = { record: false, min_offset, timeout_ms: RECHECK_TIMEOUT_MS };
    const { predictions } = await this.api.predict({ instances: [features], ...options });
    this.updateGuess();
    return predictions[0]?.label ?? null;
  }

  /** Follow the drawing on the board again, where its rejection was undone: it is listed as one that waits. */
  resumeUndone() {
    const feedback = this.current?.feedback;
    if (feedback?.rejected && this.gallery.isHeld(feedback)) feedback.reopen();
  }

  // forgetting

  /** Forget a drawing of the gallery. Returns whether it is forgotten. */
  async forget(example: TaughtExample): Promise<boolean> {
    const own = this.drawings.find(({ feedback }) => feedback.id === example.id);
    const isActive = own?.feedback.isActive ?? false;
    return this.gallery.forget(example, own && isActive ? () => this.retract(own) : undefined);
  }

  /** Forget all own drawings of a class. Returns how many were forgotten; null if that failed. */
  async forgetClass(label: string): Promise<number | null> {
    const count = await this.gallery.forgetClass(label);
    if (count === null) return null;
    for (const drawing of this.activeDrawings) if (drawing.label === label) drawing.feedback.undo = 'saved';
    if (this.current?.label === label) this.current = null;
    this.newClasses = this.newClasses.filter((one) => one !== label);
    return count;
  }

  // requests

  private async guessNow() {
    const features = this.features;
    if (features === null) {
      this.guess = null;
      return;
    }
    const guess = await this.dryRun(features);
    if (guess && this.features !== null) this.guess = guess;
  }

  /** Guess without a record; null if that failed. After too many requests it waits in silence. */
  private async dryRun(features: number[]): Promise<Guess | null> {
    if (this.waiting) return null;
    try {
      const answer = await this.api.predict({ instances: [features], record: false });
      const guess = answer.predictions[0] ?? null;
      if (guess) this.guessed = Object.keys(guess.probabilities);
      return guess;
    } catch (error) {
      if (error instanceof ApiError && error.status === TOO_MANY) void this.wait(error);
      else this.complain(error);
      return null;
    }
  }

  private async wait({ retryAfter_s }: ApiError) {
    this.waiting = true;
    await this.pause(1000 * Math.min(retryAfter_s ?? MAX_PAUSE_S, MAX_PAUSE_S));
    this.waiting = false;
    this.updateGuess();
  }

  private onEvent(event: ServerEvent) {
    if (event.type === 'received') return; // the model has learned nothing of it
    this.refresh();
    if (CHANGES_GALLERY.has(event.type)) this.gallery.refresh();
    if (event.type !== 'learned' && event.type !== 'refused') this.updateGuess();
  }

  /** Called once: classes added elsewhere later arrive with the next guess. */
  private async loadClasses() {
    this.listed = await this.api.classes().catch(() => this.listed);
  }

  /** Ask about a blank drawing, which tells the classes that the model knows now. A guess tells them as well. */
  private async loadKnown() {
    if (this.features === null) await this.dryRun(BLANK);
    if (this.showsCurve) this.curve = await this.api.curve().catch(() => this.curve);
  }

  private complain(error: unknown) {
    this.problem = problemOf(error);
  }
}
