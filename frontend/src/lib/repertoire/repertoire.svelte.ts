/* The replies a ranker may give: listed, opened and added.

   LiveStatus (events) -> refresh -> replies, the open reply, unanswered questions -> the page
*/

import type { FileFormat, RepertoireApi } from '../api/repertoire';
import { Change } from './change.svelte';
import { UnansweredQuestions } from './unanswered.svelte';
import { coalesce } from '../ui/coalesce';
import { ReplyImport } from './reply_import.svelte';
import { LiveStatus, type Pause } from '../ui/live_status.svelte';
import { EditableReply } from './reply.svelte';
import { ReplyList } from './reply_list.svelte';
import { t } from '../messages';

const REST_MS = 1000; // pause between two refreshes, however many versions are published
const UNANSWERED_REST_MS = 3000;
interface Dependencies {
  api: RepertoireApi;
  newId: () => string;
  pause: Pause;
  /** Whether the caller is a curator: others see the replies only. */
  mayCurate: boolean;
}

export class Repertoire {
  readonly live: LiveStatus;
  readonly unanswered: UnansweredQuestions;
  readonly replyImport: ReplyImport;
  readonly list: ReplyList;
  /** The open reply. */
  current = $state.raw<EditableReply | null>(null);
  /** The id of the reply opened last: the list gives it the focus when the user returns. */
  lastOpenedId: string | null = null;
  newText = $state('');
  newQuestions = $state('');
  /** The last reply added here, and the state of that change. */
  added = $state.raw<{ id: string; text: string } | null>(null);
  addition = $state.raw<Change | null>(null);

  private followsUnanswered = false;

  readonly refresh: () => void;
  private refreshUnanswered: () => void;

  constructor(private dependencies: Dependencies) {
    const { api, pause } = dependencies;
    this.list = new ReplyList(api, pause);
    this.refresh = coalesce(() => this.load(), pause, REST_MS);
    this.live = new LiveStatus(api, pause, ({ type }) => {
      if (type === 'received') return; // the model has learned nothing of it
      this.refresh();
      if (this.followsUnanswered) this.refreshUnanswered();
    });
    this.unanswered = new UnansweredQuestions({ ...dependencies, live: this.live });
    this.refreshUnanswered = coalesce(() => this.unanswered.load(), pause, UNANSWERED_REST_MS);
    this.replyImport = new ReplyImport(api, this.live, () => this.refresh());
  }

  start() {
    this.live.start();
    this.refresh();
    if (!this.dependencies.mayCurate) return;
    this.refreshUnanswered();
  }

  stop() {
    this.live.stop();
  }

  /** Open the reply with that id; null closes it. */
  async open(id: string | null): Promise<void> {
    if (id === (this.current?.id ?? null)) return;
    if (this.current) this.lastOpenedId = this.current.id;
    this.current = id === null ? null : new EditableReply(this.dependencies.api, this.live, id, () => this.refresh());
    await this.current?.load();
  }

  /** Refresh unanswered questions only while they are shown, because they are expensive for the service. */
  followUnanswered(isShown: boolean) {
    isShown &&= this.dependencies.mayCurate;
    if (isShown && !this.followsUnanswered) this.refreshUnanswered();
    this.followsUnanswered = isShown;
  }

  /** Add the new reply. Text that could not be sent stays in the boxes. */
  async add(): Promise<void> {
    const text = this.newText.trim();
    if (text === '' || (this.addition && !this.addition.saved && this.addition.failed === null)) return;
    const examples = this.newQuestions
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    this.addition = new Change(
      this.live,
      async () => {
        const { id, text: saved, offset } = await this.dependencies.api.addReply({ text, examples });
        this.added = { id, text: saved };
        return offset;
      },
      t.repertoire.steps.added,
    );
    if (await this.addition.sent) [this.newText, this.newQuestions] = ['', ''];
    this.refresh();
  }

  exportOf(format: FileFormat): string {
    return this.dependencies.api.exportOf(format);
  }

  private async load() {
    await Promise.all([this.list.refresh(), this.current?.load()]);
  }
}
