/* The models of this service, requested until the service answers. Until then, as it answered last. */

import type { Pause } from './live_status.svelte';
import type { Memory } from './session.svelte';
import type { ModelCard } from '../schema';

const POLL_MS = 3000;

export class Models {
  /** null until the service has answered, or another time before. */
  cards = $state.raw<ModelCard[] | null>(null);

  private listed: Promise<ModelCard[]> | null = null;

  constructor(
    private list: () => Promise<ModelCard[]>,
    private pause: Pause,
    private memory?: Memory<ModelCard[]>,
  ) {}

  all(): Promise<ModelCard[]> {
    return (this.listed ??= this.request());
  }

  /** The id of the first model that fits. */
  async first(fits: (card: ModelCard) => boolean): Promise<string> {
    const card = (await this.all()).find(fits);
    if (!card) throw new Error('This server has no suitable model.');
    return card.id;
  }

  private async request(): Promise<ModelCard[]> {
    if (await this.ask()) return this.cards!;
    this.cards = this.memory?.recall() ?? null;
    const answered = this.askAgain();
    return this.cards ?? answered;
  }

  private async askAgain(): Promise<ModelCard[]> {
    do await this.pause(POLL_MS);
    while (!(await this.ask()));
    return this.cards!;
  }

  /** Ask once. Returns whether the service answered. */
  private async ask(): Promise<boolean> {
    const cards = await this.list().catch(() => null);
    if (cards === null) return false;
    this.cards = cards;
    this.memory?.remember(cards);
    return true;
  }
}

/** Whether the model gives replies. */
export const isChatModel = ({ task }: ModelCard) => task === 'ranking';
/** Whether the model sends questions to language models. */
export const isRouter = ({ task }: ModelCard) => task === 'routing';
/** Whether feedback about the model may wait for a curator. */
export const hasInbox = ({ task }: ModelCard) =>
  task === 'ranking' || task === 'classification' || task === 'regression';
/** Whether the model accepts drawings. */
export const isDrawingModel = ({ task, input, size }: ModelCard) =>
  task === 'classification' && input === 'vector' && size === 64;
