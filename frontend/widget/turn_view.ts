/* One question and its reply, with thumbs, what became of them, and a form for what the reply should have been. */

import type { Conversation, Given, Turn } from './conversation';
import { createElement, createIcon } from './elements';
import { renderMarkup } from './markup';
import type { Messages } from './messages';

export class TurnView {
  readonly element: HTMLElement;
  private readonly thumbs: Record<'up' | 'down', HTMLButtonElement>;
  private readonly status = createElement('span', { class: 'status' });
  private readonly undo: HTMLButtonElement;
  private readonly row: HTMLElement;
  private readonly correction = createElement('p', { class: 'quiet' });
  private readonly form: HTMLFormElement;
  private isSent = false;

  constructor(
    private conversation: Conversation,
    private turn: Turn,
    private t: Messages,
    /** Moves the focus to the field of the question. */
    private leave: () => void,
  ) {
    this.thumbs = { up: this.thumb('up', t.good), down: this.thumb('down', t.wrong) };
    this.undo = this.button(t.undo, () => {
      const given = this.latest;
      if (given) void conversation.undo(turn, given);
    });
    const rating = { role: 'group', 'aria-label': t.feedback, class: 'row' };
    const buttons = turn.reply === null ? [] : [this.thumbs.up, this.thumbs.down];
    this.row = createElement('div', rating, [...buttons, this.status, this.undo]);
    this.form = this.correctionForm();
    const reply = turn.reply === null ? [createElement('p', {}, [t.unknown])] : renderMarkup(turn.reply);
    this.element = createElement('li', {}, [
      createElement('p', { class: 'question' }, [createElement('span', { class: 'unseen' }, [t.you]), turn.question]),
      createElement('article', { class: 'reply', 'aria-label': t.reply }, reply),
      ...[this.row, this.correction, this.form],
    ]);
  }

  /** The last opinion in force, which can be taken back. */
  private get latest(): Given | null {
    return this.turn.correction ?? this.turn.thumb;
  }

  draw() {
    const { turn, t, conversation } = this;
    const { thumb, correction, status } = turn;
    for (const kind of ['up', 'down'] as const)
      this.thumbs[kind].setAttribute('aria-pressed', String(thumb?.kind === kind));
    this.status.textContent = status;
    this.status.classList.toggle('is-learned', status === t.learned);
    const lead = correction?.isHeld || conversation.teaching === 'review' ? t.suggested : t.taught;
    this.correction.textContent = correction ? `${lead}: “${correction.text}”` : '';
    this.correction.hidden = correction === null;
    this.hideUnless(this.latest !== null && turn.pending === null, this.undo);
    this.hideUnless(this.wantsCorrection(), this.form);
    this.row.hidden = turn.reply === null && status === '' && this.undo.hidden;
    const isUsed = this.element.matches(':focus-within'); // the visitor is here: the form stays in view
    if (isUsed && !this.form.hidden) this.form.scrollIntoView({ block: 'nearest' });
  }

  private wantsCorrection(): boolean {
    const { turn, conversation } = this;
    const isMissing = turn.reply === null || turn.thumb?.kind === 'down';
    const canTeach = conversation.teaching !== 'off' || turn.chips.length > 0;
    return isMissing && canTeach && turn.correction === null;
  }

  /** Show or hide an element. What is hidden with the focus in it leaves it to the field of the question. */
  private hideUnless(isShown: boolean, element: HTMLElement) {
    const hadFocus = !isShown && element.matches(':focus, :focus-within');
    element.hidden = !isShown;
    if (hadFocus) this.leave();
  }

  private correctionForm(): HTMLFormElement {
    const { turn, t, conversation } = this;
    const chips = turn.chips.map((text) => this.button(text, () => void conversation.correct(turn, text)));
    const isReviewed = conversation.teaching === 'review';
    const field = createElement('textarea', { rows: '2' });
    const form = createElement('form', {}, [
      ...(chips.length > 0
        ? [createElement('p', {}, [t.choose]), createElement('div', { class: 'chips' }, chips)]
        : []),
      ...(conversation.teaching === 'off'
        ? []
        : [
            createElement('label', {}, [t.correct, field]),
            ...(isReviewed ? [createElement('p', { class: 'quiet' }, [t.reviewed])] : []),
            createElement('button', { class: 'primary', type: 'submit' }, [isReviewed ? t.suggest : t.teach]),
          ]),
    ]);
    form.onsubmit = (event) => {
      event.preventDefault();
      if (this.isSent) return;
      this.isSent = true;
      void conversation.correct(turn, field.value).finally(() => (this.isSent = false));
    };
    return form;
  }

  private thumb(kind: 'up' | 'down', label: string): HTMLButtonElement {
    const button = createElement('button', { type: 'button', 'aria-label': label, title: label }, [createIcon(kind)]);
    button.onclick = () => void this.conversation.rate(this.turn, kind);
    return button;
  }

  private button(text: string, act: () => void): HTMLButtonElement {
    const button = createElement('button', { type: 'button' }, [text]);
    button.onclick = act;
    return button;
  }
}
