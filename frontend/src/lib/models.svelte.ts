/* Which models this service has: asked once, and again until it answers. */

import type { Pause } from './live.svelte';
import type { ModelCard } from './schema';

const AGAIN_MS = 3000;

export class Models {
  /** null until the service has answered. */
  cards = $state.raw<ModelCard[] | null>(null);

  private listed: Promise<ModelCard[]> | null = null;

  constructor(
    private list: () => Promise<ModelCard[]>,
    private pause: Pause,
  ) {}

  all(): Promise<ModelCard[]> {
    return (this.listed ??= this.ask());
  }

  /** The first that fits. */
  async first(fits: (card: ModelCard) => boolean): Promise<string> {
    const card = (await this.all()).find(fits);
    if (!card) throw new Error('This server has no such model.');
    return card.id;
  }

  private async ask(): Promise<ModelCard[]> {
    while (this.cards === null) {
      this.cards = await this.list().catch(() => null);
      if (this.cards === null) await this.pause(AGAIN_MS);
    }
    return this.cards;
  }
}

export const chats = ({ kind }: ModelCard) => kind === 'ranker';
const LABELLED = ['classifier', 'tower', 'knn', 'logistic', 'best_of'];
/** Whether drawings can be given to it. */
export const draws = ({ kind, input, size }: ModelCard) => LABELLED.includes(kind) && input === 'vector' && size === 64;
