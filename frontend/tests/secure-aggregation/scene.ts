/* Groups of clients whose messages are passed on without a service. */

import {
  AggregationClient,
  Layout,
  type Bytes,
  type Group,
  type PublicKeys,
  type SealedShares,
} from '../../../packages/online-federated/js/src/index.js';

export const fromHex = (text: string): Bytes =>
  Uint8Array.from({ length: text.length / 2 }, (_, at) => Number.parseInt(text.slice(2 * at, 2 * at + 2), 16));

export const toHex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

export const LAYOUT = new Layout([{ length: 2, bits: 12 }]);
export const VALUES = [3, -4];

/** Clients that have advertised their keys. Members are numbered from 1. */
export class Scene {
  group: Group = { context: new TextEncoder().encode('cohort 1'), threshold: 0, layout: LAYOUT };
  readonly keys = new Map<number, PublicKeys>();
  readonly shared = new Map<number, SealedShares>();

  private constructor(readonly clients: AggregationClient[]) {}

  static async create(count: number, threshold = Math.floor((2 * count) / 3) + 1): Promise<Scene> {
    const scene = new Scene(await Promise.all(Array.from({ length: count }, () => AggregationClient.create())));
    scene.group = { ...scene.group, threshold };
    scene.clients.forEach((client, place) => scene.keys.set(place + 1, client.advertise()));
    return scene;
  }

  client(number: number): AggregationClient {
    return this.clients[number - 1]!;
  }

  async share(...numbers: number[]): Promise<void> {
    for (const number of numbers)
      this.shared.set(number, await this.client(number).share(this.group, number, this.keys));
  }

  /** What the service passes on to a member. */
  sealedFor(number: number): Map<number, Bytes> {
    const others = [...this.shared].filter(([sender]) => sender !== number);
    return new Map(others.map(([sender, { sealed }]) => [sender, sealed.get(number)!]));
  }

  mask(number: number, values: ArrayLike<number> = VALUES): Promise<Bytes> {
    return this.client(number).mask(this.sealedFor(number), values);
  }
}
