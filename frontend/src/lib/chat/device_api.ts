/* The requests of the chat, some of which this device answers without the service.

   What it needs for that is no part of the first view: it is loaded soon after, or with the first request that fails.
   Where it has answered before, it is loaded with the list of conversations, because only this browser has those turns.
   Feedback waits for it: only there it is known whether a request was sent whose answer was lost.
*/

import { isUnreachable } from '../http';
import type { Offlineable } from '../api/model';
import type { Api } from '../api/chat';
import type { Memory } from '../ui/session.svelte';

export class DeviceApi {
  private device: Offlineable<Api> | null = null;
  private loading: Promise<Offlineable<Api>> | null = null;

  constructor(
    private online: Api,
    private open: (online: Api) => Promise<Offlineable<Api>>,
    /** Whether this device has ever answered in this browser. */
    private hasAnswered: Memory<boolean> = { recall: () => null, remember: () => {} },
  ) {}

  /** Rejects where it cannot be loaded: the next call tries again. */
  load(): Promise<Offlineable<Api>> {
    this.loading ??= this.open(this.online).then(
      (device) => (this.device = device),
      (error: unknown) => {
        this.loading = null;
        throw error;
      },
    );
    return this.loading;
  }

  /** The same requests, wherever they are answered. */
  get requests(): Offlineable<Api> {
    return {
      ...this.online,
      predict: async (...given) => {
        const answer = await this.send((api) => api.predict(...given));
        if (answer.isLocal && given[0].record) this.hasAnswered.remember(true);
        return answer;
      },
      conversations: (...given) => this.read((api) => api.conversations(...given)),
      conversation: (...given) => this.read((api) => api.conversation(...given)),
      changeConversation: (...given) => this.read((api) => api.changeConversation(...given)),
      deleteConversation: (...given) => this.read((api) => api.deleteConversation(...given)),
      giveFeedback: async (...given) => (await this.loadIfPossible()).giveFeedback(...given),
      retract: async (...given) => (await this.loadIfPossible()).retract(...given),
      explain: (...given) => this.send((api) => api.explain(...given)),
    };
  }

  /** Ask about conversations, of which this browser may have turns. */
  private async read<T>(request: (api: Offlineable<Api>) => Promise<T>): Promise<T> {
    return request(this.hasAnswered.recall() ? await this.loadIfPossible() : this.online);
  }

  private loadIfPossible(): Promise<Offlineable<Api>> {
    return this.load().catch(() => this.online);
  }

  private async send<T>(request: (api: Offlineable<Api>) => Promise<T>): Promise<T> {
    if (this.device) return request(this.device);
    try {
      return await request(this.online);
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      const device = await this.load().catch(() => null);
      if (device === null) throw error;
      return request(device);
    }
  }
}
