/* Feedback that waits where the service cannot be reached.

   What waits already goes first, so that no opinion overtakes an earlier one about the same answer.
   An answer of this device waits for the opinions that were given before: to keep one takes the browser a moment.
*/

import { completeFeedback } from '../api/offline';
import type { FeedbackApi, ModelApi, Queued } from '../api/model';
import type { FeedbackRequest, Receipt } from '../schema';
import type { LocalLearner, LocalModel } from './local_model.svelte';
import type { Opinion, Queue } from './queue.svelte';
import { reach, type Reachability } from './reach';
import type { LocalExample } from './store';

/** isLocal: whether it is about an answer that was given on this device. */
export type Described = Opinion & { isLocal: boolean };

interface Dependencies {
  online: Pick<ModelApi<unknown, unknown>, 'giveFeedback' | 'retract'>;
  queue: Queue;
  local: LocalModel<LocalLearner>;
  connection: Reachability;
  newId: () => string;
  describe: (feedback: FeedbackRequest) => Described;
  /** What feedback of earlier visits has taught; null where that is not known. */
  exampleOf: (id: string) => LocalExample | null;
}

export class FeedbackQueue implements FeedbackApi {
  /** What was taught on this page, by the id of the feedback. */
  private taught = new Map<string, LocalExample | null>();

  /** The last feedback about each answer, by the id of the prediction. */
  private latest = new Map<string, string>();

  /** What is on its way into the queue. */
  private storing = new Set<Promise<unknown>>();

  constructor(private dependencies: Dependencies) {}

  /** Let the next feedback about an answer of an earlier visit replace what was said then. */
  resume(prediction: string, feedback: string) {
    if (!this.latest.has(prediction)) this.latest.set(prediction, feedback);
  }

  giveFeedback = async (feedback: FeedbackRequest): Promise<Receipt | Queued> => {
    const { online, local, connection, describe } = this.dependencies;
    const opinion = describe(feedback);
    this.taught.set(feedback.id, opinion.example);
    const earlier = this.latest.get(feedback.prediction_id);
    this.latest.set(feedback.prediction_id, feedback.id);
    if (opinion.isLocal) return this.keep(opinion, false, earlier);
    if (this.waits()) return this.keep(opinion, false);
    const receipt = await reach(
      connection,
      () => online.giveFeedback(feedback),
      (_, mayHaveArrived) => this.keep(opinion, mayHaveArrived),
    );
    const { kind, title, example, body } = opinion;
    if ('offset' in receipt) await local.note({ id: feedback.id, kind, title, example, body, of: null }, receipt);
    return receipt;
  };

  retract = async (id: string): Promise<Receipt | Queued> => {
    const { online, queue, local, connection, newId, exampleOf } = this.dependencies;
    const example = this.taught.get(id) ?? exampleOf(id);
    const keep = async (mayHaveArrived: boolean): Promise<Queued> => {
      const retraction = await this.store(queue.retract(local.name, id, example, mayHaveArrived));
      return retraction === null ? { delivered: Promise.resolve(null) } : this.deliver(retraction);
    };
    if (this.waits()) return keep(false);
    const receipt = await reach(
      connection,
      () => online.retract(id),
      (_, mayHaveArrived) => keep(mayHaveArrived),
    );
    if ('offset' in receipt)
      await local.note({ id: newId(), kind: 'retraction', of: id, title: '', example, body: null }, receipt);
    return receipt;
  };

  /** Keep feedback until the service can be reached. mayHaveArrived: whether it was sent before. earlier: the id of
      the feedback that it replaces; left out for answers that the service knows, because it replaces that itself. */
  async keep(opinion: Opinion, mayHaveArrived: boolean, earlier?: string): Promise<Queued> {
    return this.deliver(await this.store(this.queueUp(opinion, mayHaveArrived, earlier)));
  }

  private async queueUp(opinion: Opinion, mayHaveArrived: boolean, earlier?: string) {
    const { queue, local } = this.dependencies;
    const body = completeFeedback(opinion.body);
    if (earlier !== undefined) await queue.retract(local.name, earlier);
    return queue.give(local.name, { ...opinion, body }, mayHaveArrived);
  }

  /** Let answers of this device wait for work that puts an opinion into the queue. */
  async store<T>(work: Promise<T>): Promise<T> {
    this.storing.add(work);
    try {
      return await work;
    } finally {
      this.storing.delete(work);
    }
  }

  /** Resolves once the model on this device has learned what was said before. */
  async whenStored(): Promise<void> {
    await Promise.allSettled(this.storing);
  }

  private deliver(id: string): Queued {
    const { queue, connection } = this.dependencies;
    if (!connection.lost) void queue.flush();
    return { delivered: queue.delivered(id) };
  }

  private waits(): boolean {
    const { queue, local } = this.dependencies;
    return queue.waiting.some(({ model }) => model === local.name);
  }
}
