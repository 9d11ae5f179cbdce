/* Requests that this device answers while the service cannot be reached. */

import { ApiError, isUnreachable, NO_ANSWER } from '../http';

/** Whether the service could be reached last. */
export interface Reachability {
  readonly lost: boolean;
}

/** The answer of the service, or without it that of `locally`. error: that there was no answer.
    mayHaveArrived: whether a request was sent, whose answer may be all that was lost. */
export async function reach<T, U>(
  connection: Reachability,
  request: () => Promise<T>,
  locally: (error: ApiError, mayHaveArrived: boolean) => Promise<U>,
): Promise<T | U> {
  if (connection.lost) return locally(new ApiError(NO_ANSWER), false);
  try {
    return await request();
  } catch (error) {
    if (!isUnreachable(error)) throw error;
    return locally(error, true);
  }
}
