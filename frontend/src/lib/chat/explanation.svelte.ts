/* The explanation of a reply, requested when it is opened and computed by the live version. */

import type { ExplanationAnswer } from '../schema';
import { problemOf } from '../ui/problems';

export class Explanation<Answer = ExplanationAnswer> {
  open = $state(false);
  answer = $state.raw<Answer | null>(null);
  problem = $state<string | null>(null);

  constructor(
    private context: { api: { explain: (predictionId: string) => Promise<Answer> } },
    private predictionId: string,
  ) {}

  async toggle(): Promise<void> {
    this.open = !this.open;
    if (this.open) await this.load();
  }

  private async load() {
    this.problem = null;
    try {
      this.answer = await this.context.api.explain(this.predictionId);
    } catch (error) {
      this.answer = null;
      this.problem = problemOf(error);
    }
  }
}
