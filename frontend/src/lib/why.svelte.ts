/* Why a reply was given: asked when somebody wants to know, by what the live version knows then. */

import type { Api } from './api';
import type { Around } from './feedback.svelte';
import type { WhyAnswer } from './schema';
import { messageOf } from './words';

export class Why {
  open = $state(false);
  answer = $state.raw<WhyAnswer | null>(null);
  problem = $state<string | null>(null);

  constructor(
    private around: Pick<Around<Api>, 'api'>,
    private predictionId: string,
  ) {}

  async toggle(): Promise<void> {
    this.open = !this.open;
    if (this.open) await this.ask();
  }

  private async ask() {
    this.problem = null;
    try {
      this.answer = await this.around.api.why(this.predictionId);
    } catch (error) {
      this.answer = null;
      this.problem = messageOf(error);
    }
  }
}
