/* The worker of `LearnerWorker`: it answers the calls of one page, in their order. */

import { Learner } from './learner.js';
import type { CreateOptions } from './options.js';
import type { Call, Reply } from './worker.js';

/** What a worker sees of itself, which the types of a page do not have. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<Call>) => void) | null;
  postMessage(reply: Reply): void;
}

const scope = globalThis as unknown as WorkerScope;
let learner: Learner | null = null;
let last = Promise.resolve();

scope.onmessage = ({ data }) => {
  last = last.then(async () => scope.postMessage(await answer(data)));
};

async function answer({ id, method, args }: Call): Promise<Reply> {
  try {
    if (method === 'create' || method === 'read') {
      learner =
        method === 'create'
          ? Learner.create(args[0] as CreateOptions)
          : Learner.read(args[0] as Uint8Array, args[1] as Uint8Array | undefined);
      return { id, value: null };
    }
    const member = (learner as unknown as Record<string, unknown> | null)?.[method];
    const value: unknown =
      typeof member === 'function' ? await (member.apply(learner, args) as unknown) : member;
    return { id, value };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
}
