/* The devices of the service, and what lies where. */

import type { DeviceState, ModelPlace } from '../schema';

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
