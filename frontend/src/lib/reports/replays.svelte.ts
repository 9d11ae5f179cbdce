/* Logs uploaded by the user: selected, sent, replayed by the service, and their results.

   choose(file) -> preview, kinds, label -> send -> waiting, running -> done: a report, or failed: why
*/

import type { ReplaysApi } from '../api/reports';
import { t } from '../messages';
import { detailOf } from '../ui/problems';
import { Columns, wordRefusal } from './columns.svelte';
import { previewLog, type Preview } from './preview';
import { TimeLeft } from './time_left';
import type { Pause } from '../ui/live_status.svelte';
import type { Replay, Replays as Answer } from '../schema';
import { bytes } from '../ui/wording';

const POLL_MS = 1000;
const MAX_BAD_RATIO = 0.1; // share of the lines that may be skipped, if allowed

export const isRunning = ({ state }: Replay) => state === 'waiting' || state === 'running';

export class Replays {
  private answer = $state.raw<Answer | null>(null);
  private actionError = $state<string | null>(null);
  private loadError = $state<string | null>(null);
  problem = $derived(this.actionError ?? this.loadError);

  file = $state.raw<File | null>(null);
  /** What was recognised in its beginning; null until that was read. */
  preview = $state.raw<Preview | null>(null);
  label = $state('');
  columns: Columns;
  /** None means all suitable kinds. */
  kinds = $state<string[]>([]);
  skipBadLines = $state(false);
  /** Share of the file uploaded, 0 to 1; null without an upload. */
  uploadRatio = $state<number | null>(null);
  uploadLeft_ms = $state<number | null>(null);
  /** The result of the newest replay sent from here. */
  latestResult = $state.raw<Replay | null>(null);

  all = $derived(this.answer?.replays ?? []);
  availableKinds = $derived(this.answer?.kinds ?? []);
  asksForLabel = $derived(this.preview?.isTable ?? false);
  isLoaded = $derived(this.answer !== null);
  ready = $derived.by(
    () =>
      this.preview !== null &&
      this.uploadRatio === null &&
      (!this.asksForLabel || this.label.trim() !== '') &&
      !this.columns.hasNone,
  );

  private stopped = true;
  private watching = false;
  private awaitedId: string | null = null;
  private sending: AbortController | null = null;

  constructor(
    readonly api: ReplaysApi,
    private pause: Pause,
  ) {
    this.columns = new Columns(api);
  }

  start() {
    this.stopped = false;
    return this.refresh();
  }

  stop() {
    this.stopped = true;
    this.cancel();
  }

  async choose(file: File | null) {
    this.actionError = null;
    this.columns.clear();
    [this.file, this.preview, this.label] = [null, null, ''];
    const most = this.answer?.max_bytes;
    if (file && most !== undefined && file.size > most) {
      this.actionError = t.reports.upload.tooLarge(file.name, bytes(file.size), bytes(most));
      return;
    }
    this.file = file;
    if (!file) return;
    const preview = await previewLog(file);
    if (this.file !== file) return; // another file was chosen meanwhile
    this.preview = preview;
    this.label = preview.isTable ? preview.label : '';
    void this.lookAtColumns();
  }

  /** Recognise the columns of the file, once it is known which is the label. */
  async lookAtColumns() {
    const isNamed = this.asksForLabel && this.label.trim() !== '';
    if (this.file && (isNamed || this.preview?.format === 'JSON'))
      await this.columns.look(this.file, this.label.trim());
    else this.columns.clear();
  }

  toggle(kind: string) {
    this.kinds = this.kinds.includes(kind) ? this.kinds.filter((each) => each !== kind) : [...this.kinds, kind];
  }

  /** Send the file. Returns the id of its replay; null if it could not be sent. */
  async send(): Promise<string | null> {
    if (!this.file || !this.ready) return null;
    this.actionError = null;
    [this.uploadRatio, this.uploadLeft_ms] = [0, null];
    const left = new TimeLeft();
    let id: string | null = null;
    const { signal } = (this.sending = new AbortController());
    const request = {
      models: this.kinds,
      label: this.label.trim(),
      maxBadRatio: this.skipBadLines ? MAX_BAD_RATIO : 0,
      columns: this.columns.choice,
    };
    try {
      const replay = await this.api.send(
        this.file,
        request,
        (share) => {
          this.uploadRatio = share;
          this.uploadLeft_ms = left.see(share, performance.now());
        },
        signal,
      );
      this.awaitedId = id = replay.id;
      [this.file, this.preview] = [null, null];
    } catch (error) {
      if (!signal.aborted) this.actionError = wordRefusal(error);
    }
    this.uploadRatio = null;
    await this.refresh();
    return id;
  }

  /** Tell the result of a replay that runs, though it was not sent from here: the page was reloaded, or opened by its address. */
  follow(id: string) {
    const replay = this.all.find((each) => each.id === id);
    if (replay && isRunning(replay)) this.awaitedId = id;
  }

  /** Cancel the upload. */
  cancel() {
    this.sending?.abort();
  }

  /** Cancel a running replay, or delete a finished one. */
  async drop(id: string) {
    this.actionError = null;
    if (this.awaitedId === id) this.awaitedId = null;
    if (this.latestResult?.id === id) this.latestResult = null;
    await this.api.drop(id).catch((error: unknown) => (this.actionError = detailOf(error)));
    await this.refresh();
  }

  private async refresh() {
    await this.load();
    if (!this.watching) void this.watch();
  }

  private async load() {
    try {
      this.answer = await this.api.list();
      this.loadError = null;
      this.noteResult(this.all.find(({ id }) => id === this.awaitedId));
    } catch (error) {
      this.loadError = detailOf(error);
    }
  }

  private noteResult(replay: Replay | undefined) {
    if (!replay || isRunning(replay)) return;
    this.awaitedId = null;
    this.latestResult = replay;
  }

  private async watch() {
    this.watching = true;
    while (!this.stopped && (this.answer === null || this.all.some(isRunning))) {
      await this.pause(POLL_MS);
      await this.load();
    }
    this.watching = false;
  }
}
