/* The report of one model's own log: up to where it tells, how far the next one is, whether the log has grown since.

   events --> ask --> state
   make ----> ask, again and again while it is made
*/

import type { ReportApi } from './api';
import { gathered } from './gathered';
import type { Pause } from './live.svelte';
import type { ReportState } from './schema';
import { messageOf } from './words';

const AGAIN_MS = 1000;

export class Report {
  state = $state.raw<ReportState | null>(null);
  private unreached = $state<string | null>(null);
  /** Events that came since the newest report; 0 while there is none. */
  since = $derived(this.state?.until == null ? 0 : this.state.head - this.state.until);
  problem = $derived(this.unreached ?? this.state?.failed ?? null);

  private stopped = true;
  private watching = false;
  private stopEvents = () => {};
  private refresh: () => void;

  constructor(
    readonly api: ReportApi,
    private pause: Pause,
  ) {
    this.refresh = gathered(() => this.ask(() => this.api.state()), pause, AGAIN_MS);
  }

  get page(): string | null {
    return this.state?.until == null ? null : this.api.page(this.state.until);
  }

  /** The first one is made without being asked for: it is what somebody came to see. */
  async start() {
    this.stopped = false;
    this.stopEvents = this.api.events(() => this.refresh(), () => {});
    await this.ask(() => this.api.state());
    const { state } = this;
    if (state && state.until === null && state.head > 0 && state.failed === null && !state.making) await this.make();
  }

  stop() {
    this.stopped = true;
    this.stopEvents();
  }

  make() {
    return this.ask(() => this.api.make());
  }

  private async ask(question: () => Promise<ReportState>) {
    try {
      this.state = await question();
      this.unreached = null;
    } catch (error) {
      this.unreached = messageOf(error);
    }
    if (this.state?.making && !this.watching) void this.watch();
  }

  private async watch() {
    this.watching = true;
    while (this.state?.making && !this.stopped) {
      await this.pause(AGAIN_MS);
      await this.ask(() => this.api.state());
    }
    this.watching = false;
  }
}
