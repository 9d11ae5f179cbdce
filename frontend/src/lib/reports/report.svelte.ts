/* The report of one model's log: the events it covers, the progress of the next one, and new events.

   events --> load --> state
   generate --> load, repeated while the report is made
*/

import type { ReportApi } from '../api';
import { coalesce } from '../ui/coalesce';
import type { Pause } from '../ui/live_status.svelte';
import type { ReportState } from '../schema';
import { messageOf } from '../ui/wording';

const POLL_MS = 1000;

export class Report {
  state = $state.raw<ReportState | null>(null);
  private loadError = $state<string | null>(null);
  /** Number of events since the newest report; 0 without a report. */
  newEventCount = $derived(this.state?.until == null ? 0 : this.state.head - this.state.until);
  problem = $derived(this.loadError ?? this.state?.failed ?? null);

  private stopped = true;
  private watching = false;
  private stopEvents = () => {};
  private refresh: () => void;

  constructor(
    readonly api: ReportApi,
    private pause: Pause,
  ) {
    this.refresh = coalesce(() => this.load(() => this.api.state()), pause, POLL_MS);
  }

  get page(): string | null {
    return this.state?.until == null ? null : this.api.page(this.state.until);
  }

  /** Load the state, and generate the first report. */
  async start() {
    this.stopped = false;
    this.stopEvents = this.api.events(
      () => this.refresh(),
      () => {},
    );
    await this.load(() => this.api.state());
    const { state } = this;
    if (state && state.until === null && state.head > 0 && state.failed === null && !state.making)
      await this.generate();
  }

  stop() {
    this.stopped = true;
    this.stopEvents();
  }

  generate() {
    return this.load(() => this.api.generate());
  }

  private async load(request: () => Promise<ReportState>) {
    try {
      this.state = await request();
      this.loadError = null;
    } catch (error) {
      this.loadError = messageOf(error);
    }
    if (this.state?.making && !this.watching) void this.watch();
  }

  private async watch() {
    this.watching = true;
    while (this.state?.making && !this.stopped) {
      await this.pause(POLL_MS);
      await this.load(() => this.api.state());
    }
    this.watching = false;
  }
}
