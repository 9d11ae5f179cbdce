/* Estimates how long an upload still takes, steadily: a burst moves the estimate a little. */

const MEMORY_MS = 8000; // a speed counts 1/e as much as one that is so much newer
const MIN_MS = 1000; // before which nothing is told

export class TimeLeft {
  private began: number | null = null;
  private seen = 0;
  private share = 0;
  private speed = 0; // of the share, per ms
  private weight = 0;

  /** Take a report that `share` was done at this moment, in ms of a steady clock. Returns the ms left, or null. */
  see(share: number, at: number): number | null {
    if (this.began === null) [this.began, this.seen, this.share] = [at, at, share];
    const passed = at - this.seen;
    if (passed > 0 && share > this.share) {
      const keep = Math.exp(-passed / MEMORY_MS);
      this.speed = keep * this.speed + ((1 - keep) * (share - this.share)) / passed;
      this.weight = keep * this.weight + 1 - keep;
      [this.seen, this.share] = [at, share];
    }
    if (at - this.began < MIN_MS || this.weight === 0) return null;
    return (1 - this.share) / (this.speed / this.weight);
  }
}
