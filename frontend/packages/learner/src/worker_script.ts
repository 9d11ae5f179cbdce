/* The worker of `LearnerWorker`: it answers the calls of one page, in their order. */

import { Learner } from './learner.js';
import type { CreateOptions } from './options.js';
import type { Call, Reply } from './worker.js';

/** What a worker sees of itself, which the types of a page do not have. */
export interface WorkerScope {
  onmessage: ((event: MessageEvent<Call>) => void) | null;
  postMessage(reply: Reply): void;
}

/** Answer the calls that a scope receives. */
export function serve(scope: WorkerScope): void {
  let learner: Learner | null = null;
  let last = Promise.resolve();

  async function answer({ method, args }: Call): Promise<unknown> {
    if (method === 'create') learner = Learner.create(args[0] as CreateOptions);
    else if (method === 'read') learner = Learner.read(args[0] as Uint8Array, args[1] as Uint8Array | undefined);
    else {
      const member = (learner as unknown as Record<string, unknown> | null)?.[method];
      return typeof member === 'function' ? (member.apply(learner, args) as unknown) : member;
    }
    return undefined;
  }

  async function reply(call: Call): Promise<Reply> {
    try {
      return { id: call.id, value: await answer(call) };
    } catch (error) {
      return { id: call.id, error: error instanceof Error ? error.message : String(error) };
    }
  }

  scope.onmessage = ({ data }) => {
    last = last.then(async () => scope.postMessage(await reply(data)));
  };
}

if ('WorkerGlobalScope' in globalThis) serve(globalThis);
