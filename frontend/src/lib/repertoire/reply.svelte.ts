/* One reply with its example questions and feedback, and the operations on it. */

import { ApiError } from '../http';
import type { RepertoireApi } from '../api/repertoire';
import { Change } from './change.svelte';
import type { LiveStatus } from '../ui/live_status.svelte';
import type { EditReply, ReplyDetails } from '../schema';
import { t } from '../messages';
import { problemOf } from '../ui/problems';

export class EditableReply {
  /** null until the service has answered, or if there is none. */
  details = $state.raw<ReplyDetails | null>(null);
  missing = $state(false);
  problem = $state<string | null>(null);
  /** The text being edited; null while it is not. */
  draft = $state<string | null>(null);
  questionDraft = $state('');
  /** The last change made here. */
  change = $state.raw<Change | null>(null);

  busy = $derived(this.change !== null && !this.change.saved && this.change.failed === null);

  constructor(
    private api: RepertoireApi,
    private live: LiveStatus,
    readonly id: string,
    /** Called after each change. */
    private onChange: () => void,
  ) {}

  async load(): Promise<void> {
    try {
      this.details = await this.api.replyDetails(this.id);
      [this.missing, this.problem] = [false, null];
    } catch (error) {
      this.missing = error instanceof ApiError && error.status === 404;
      if (this.missing) this.details = null;
      else this.problem = problemOf(error);
    }
  }

  edit() {
    this.draft = this.details?.text ?? null;
  }

  cancel() {
    this.draft = null;
  }

  /** Save the draft. Text that could not be saved stays in the box. */
  async save(): Promise<void> {
    const text = this.draft?.trim() ?? '';
    if (text === '' || this.busy) return;
    if (text !== this.details?.text && !(await this.put({ text }))) return;
    this.draft = null;
  }

  async addQuestion(): Promise<void> {
    const question = this.questionDraft.trim();
    if (question === '' || this.busy) return;
    if (await this.putQuestion(question)) this.questionDraft = '';
  }

  /** Add a question without the box, such as one that was removed. */
  putQuestion(question: string): Promise<boolean> {
    return this.put({ examples: [question] }, t.repertoire.steps.questionAdded);
  }

  forgetQuestion(offset: number): Promise<boolean> {
    const forget = async () => (await this.api.forgetExample(this.id, offset)).offset;
    return this.make(forget, t.repertoire.steps.questionRemoved, t.ui.progress.unlearned);
  }

  /** Take back one feedback about the reply. */
  takeBack(feedbackId: string): Promise<boolean> {
    return this.make(
      async () => (await this.api.retract(feedbackId)).offset,
      t.repertoire.steps.takenBack,
      t.ui.progress.unlearned,
    );
  }

  retire(): Promise<boolean> {
    return this.put({ active: false }, t.repertoire.steps.retired, t.repertoire.steps.noLongerGiven);
  }

  restore(): Promise<boolean> {
    return this.put({ active: true }, t.repertoire.steps.restored, t.repertoire.steps.givenAgain);
  }

  private put(edit: EditReply, done?: string, learned?: Change['learned']): Promise<boolean> {
    return this.make(async () => (await this.api.editReply(this.id, edit)).offset, done, learned);
  }

  /** Send one change at a time, so that they arrive in order. Return whether it was saved. */
  private async make(send: () => Promise<number>, done?: string, learned?: Change['learned']): Promise<boolean> {
    if (this.busy) return false;
    this.change = new Change(this.live, send, done, learned);
    const saved = await this.change.sent;
    await this.load();
    this.onChange();
    return saved;
  }
}
