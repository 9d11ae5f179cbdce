/* The requests of the drawing page, for a classifier of 64 numbers. */

import { call, withUser } from '../http';
import type { ClassInfo, Curve, Guess, Taught, TaughtExample } from '../schema';
import { createApi, OF_USER, pathOf } from './model';

export type DrawApi = ReturnType<typeof createDrawApi>;

export function createDrawApi(name: string) {
  const model = pathOf(name);
  return {
    ...createApi<Guess, number[]>(async () => name),
    classes: async () => (await call<{ labels: ClassInfo[] }>('GET', `${model}/labels`)).labels,
    curve: () => call<Curve>('GET', `${model}/curve`),
    /** What was taught, the newest drawings of each class. */
    examples: (of: 'user' | 'everyone', limit: number) => {
      const query = new URLSearchParams({ of, limit: String(limit) });
      return call<Taught>('GET', `${model}/examples?${query}`, undefined, OF_USER);
    },
    /** Take back all own drawings of a class. Returns how many. */
    forgetClass: async (label: string) => {
      const url = `${model}/examples?${new URLSearchParams({ label })}`;
      return (await call<{ count: number }>('DELETE', url, undefined, OF_USER)).count;
    },
    /** Teach what was taken back once more. id: a new one for the feedback. */
    teachAgain: async ({ prediction_id, input }: TaughtExample, label: string, id: string): Promise<void> => {
      const subject = prediction_id === null ? { input } : { prediction_id };
      await call('POST', `${model}:feedback`, { feedback: [withUser({ id, ...subject, label })] });
    },
  };
}
