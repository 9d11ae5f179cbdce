/* The report of one model's log: the events it covers, the progress of the next one, and new events.

   events --> load --> state
   generate --> load, repeated while the report is made
*/

import type { ReportApi } from '../api/reports';
import { coalesce } from '../ui/coalesce';
import type { Pause } from '../ui/live_status.svelte';
import type { ReportEntry, ReportState } from '../schema';
import { detailOf } from '../ui/problems';

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

  /** The report up to an event; the newest if there is none up to it, or none was asked for. */
  entryOf(until: number | null): ReportEntry | null {
    const reports = this.state?.reports ?? [];
    return reports.find((entry) => entry.until === until) ?? reports[0] ?? null;
  }

  /** Load the state, and generate the first report. */
  async start() {
    this.stopped = false;
    this.stopEvents = this.api.events(
      ({ type }) => type !== 'received' && this.refresh(),
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

  /** Stop the report that is being made. */
  async cancel() {
    await this.api.cancel().catch((error: unknown) => (this.loadError = detailOf(error)));
    await this.load(() => this.api.state());
  }

  private async load(request: () => Promise<ReportState>) {
    try {
      this.state = await request();
      this.loadError = null;
    } catch (error) {
      this.loadError = detailOf(error);
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
