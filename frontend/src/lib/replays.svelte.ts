/* Logs that somebody drops on the page: chosen, sent, replayed by the service, and what they came to.

   choose(file) -> kinds, label -> send -> waiting, running -> done: a report, or failed: why
*/

import type { ReplaysApi } from './api';
import { columnsOf } from './columns';
import type { Pause } from './live.svelte';
import type { Replay, Replays as Answer } from './schema';
import { bytes, messageOf } from './words';

const AGAIN_MS = 1000;
const BORNE = 0.1; // share of the lines that may be left out, where somebody says so

export const goesOn = ({ state }: Replay) => state === 'waiting' || state === 'running';
const isTable = (name: string) => /\.(csv|parquet)(\.gz|\.zst)?$/i.test(name);

export class Replays {
  private answer = $state.raw<Answer | null>(null);
  private notDone = $state<string | null>(null);
  private unreached = $state<string | null>(null);
  problem = $derived(this.notDone ?? this.unreached);

  file = $state.raw<File | null>(null);
  /** Of a table, where they could be read. */
  columns = $state.raw<string[]>([]);
  label = $state('');
  /** None: those that fit. */
  kinds = $state<string[]>([]);
  leaveOutBad = $state(false);
  /** How much of it is sent, 0 to 1; null while nothing is. */
  sent = $state<number | null>(null);
  /** What the newest one that was sent from here came to. */
  news = $state.raw<Replay | null>(null);

  all = $derived(this.answer?.replays ?? []);
  offered = $derived(this.answer?.kinds ?? []);
  asksForLabel = $derived(this.file !== null && isTable(this.file.name));
  ready = $derived(this.file !== null && this.sent === null && (!this.asksForLabel || this.label.trim() !== ''));

  private stopped = true;
  private watching = false;
  private awaited: string | null = null;
  private sending: AbortController | null = null;

  constructor(
    readonly api: ReplaysApi,
    private pause: Pause,
  ) {}

  start() {
    this.stopped = false;
    return this.refresh();
  }

  stop() {
    this.stopped = true;
    this.cancel();
  }

  async choose(file: File | null) {
    this.notDone = null;
    [this.file, this.columns, this.label] = [null, [], ''];
    const most = this.answer?.max_bytes;
    if (file && most !== undefined && file.size > most) {
      this.notDone = `${file.name} has ${bytes(file.size)}; this service takes logs of at most ${bytes(most)}.`;
      return;
    }
    this.file = file;
    if (!file || !this.asksForLabel) return;
    const columns = await columnsOf(file);
    if (this.file !== file) return; // another one was chosen meanwhile
    this.columns = columns;
    this.label ||= columns.at(-1) ?? '';
  }

  toggle(kind: string) {
    this.kinds = this.kinds.includes(kind) ? this.kinds.filter((each) => each !== kind) : [...this.kinds, kind];
  }

  async send() {
    if (!this.file || !this.ready) return;
    this.notDone = null;
    this.sent = 0;
    const { signal } = (this.sending = new AbortController());
    const asked = { models: this.kinds, label: this.label.trim(), maxBadRatio: this.leaveOutBad ? BORNE : 0 };
    try {
      const replay = await this.api.send(this.file, asked, (share) => (this.sent = share), signal);
      this.awaited = replay.id;
      this.file = null;
    } catch (error) {
      if (!signal.aborted) this.notDone = messageOf(error);
    }
    this.sent = null;
    await this.refresh();
  }

  /** Sends no more of it. */
  cancel() {
    this.sending?.abort();
  }

  /** Ends one that goes on, forgets one that ended. */
  async drop(id: string) {
    this.notDone = null;
    if (this.awaited === id) this.awaited = null;
    if (this.news?.id === id) this.news = null;
    await this.api.drop(id).catch((error: unknown) => (this.notDone = messageOf(error)));
    await this.refresh();
  }

  private async refresh() {
    await this.look();
    if (!this.watching) void this.watch();
  }

  private async look() {
    try {
      this.answer = await this.api.list();
      this.unreached = null;
      this.hearOf(this.all.find(({ id }) => id === this.awaited));
    } catch (error) {
      this.unreached = messageOf(error);
    }
  }

  private hearOf(replay: Replay | undefined) {
    if (!replay || goesOn(replay)) return;
    this.awaited = null;
    this.news = replay;
  }

  private async watch() {
    this.watching = true;
    while (!this.stopped && (this.answer === null || this.all.some(goesOn))) {
      await this.pause(AGAIN_MS);
      await this.look();
    }
    this.watching = false;
  }
}
