/* The versions of a model, newest first: a page of them, and more when asked for. */

import type { Version, VersionPage } from '../schema';

const PAGE = 8;

export class VersionList {
  /** Newest first. */
  shown = $state.raw<Version[]>([]);
  count = $state(0);
  live = $state<string | null>(null);
  busy = $state(false);
  private next = $state<number | null>(null);
  /** Whether there are older ones that are not shown. */
  hasMore = $derived(this.shown.length > 0 && this.next !== null);

  private size = PAGE;

  constructor(private load: (limit: number, before?: number) => Promise<VersionPage>) {}

  /** Load the newest again, as many as are shown. */
  async refresh(): Promise<VersionPage> {
    const page = await this.load(this.size);
    this.shown = page.versions;
    this.take(page);
    return page;
  }

  async more(): Promise<void> {
    if (this.next === null || this.busy) return;
    this.busy = true;
    try {
      const page = await this.load(PAGE, this.next);
      const known = new Set(this.shown.map(({ version }) => version));
      this.shown = [...this.shown, ...page.versions.filter(({ version }) => !known.has(version))];
      this.size = Math.max(PAGE, this.shown.length);
      this.take(page);
    } finally {
      this.busy = false;
    }
  }

  private take({ version_count, next_before, live_version }: VersionPage) {
    this.count = version_count;
    this.next = next_before;
    this.live = live_version === '0' ? null : live_version;
  }
}

/** Whether a version is older than the live one, so that going to it is a roll back. */
export const isOlder = (version: string, live: string | null) => live !== null && Number(version) < Number(live);

/** Whether a version has learned more than the live one, which happens after a roll back. */
export const isAhead = ({ version, learned_until }: Version, live: string | null, liveUntil: number) =>
  live !== null && Number(version) > Number(live) && learned_until > liveUntil;

export const isNewer = (version: string, live: string | null) => live !== null && Number(version) > Number(live);
