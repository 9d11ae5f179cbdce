/* The requests of the chat, some of which this device answers without the service.

   What it needs for that is no part of the first view: it is loaded soon after, or with the first request that fails.
   Feedback waits for it: only there it is known whether a request was sent whose answer was lost.
*/

import { isUnreachable, type Api, type Offlineable } from '../api';

export class DeviceApi {
  private device: Offlineable<Api> | null = null;
  private loading: Promise<Offlineable<Api>> | null = null;

  constructor(
    private online: Api,
    private open: (online: Api) => Promise<Offlineable<Api>>,
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
      predict: (...given) => this.send((api) => api.predict(...given)),
      giveFeedback: async (...given) => (await this.loadIfPossible()).giveFeedback(...given),
      retract: async (...given) => (await this.loadIfPossible()).retract(...given),
      explain: (...given) => this.send((api) => api.explain(...given)),
    };
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
