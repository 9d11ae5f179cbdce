/* The devices of the service and what lies where, read again while the section is shown. */

import type { DevicesApi } from '../api/learning';
import type { DevicesAnswer, DeviceState, ModelPlace } from '../schema';
import type { Pause } from '../ui/live_status.svelte';
import { problemOf } from '../ui/problems';

const EVERY_MS = 5_000;

export class Devices {
  answer = $state.raw<DevicesAnswer | null>(null);
  problem = $state<string | null>(null);
  #isWatched = false;

  constructor(
    readonly api: DevicesApi,
    readonly pause: Pause,
  ) {}

  /** Load again and again until `stop`. */
  async watch() {
    this.#isWatched = true;
    while (this.#isWatched) {
      await this.load();
      await this.pause(EVERY_MS);
    }
  }

  stop() {
    this.#isWatched = false;
  }

  async load() {
    try {
      this.answer = await this.api.get();
      this.problem = null;
    } catch (error) {
      this.problem = problemOf(error);
    }
  }
}

/** The models that a device learns, and those that it answers with, each named once. */
export function listOn(device: string, places: readonly ModelPlace[]) {
  const of = (role: ModelPlace['role']) =>
    places.filter((place) => place.role === role && place.device.split(',').includes(device));
  const names = (found: readonly ModelPlace[]) => [...new Set(found.map(({ model }) => model))];
  return { learns: names(of('learner')), answers: names(of('server')) };
}

/** How much of what may be used of a device is used, from 0 to 1; null: not known. */
export function usedShare({ used_bytes: used, total_bytes: total }: DeviceState): number | null {
  return used == null || !total ? null : Math.min(1, used / total);
}
