/* The drawing page without the service: this device guesses, names wait, and the gallery shows what is kept of it.

     predict      the service's guess; without it, the local learner's
     feedback     sent; without the service, in the queue, about the drawing itself
     examples     the drawings that were listed last, with those that wait
*/

import type { ApiError } from '../http';
import type { Offlineable } from '../api/model';
import type { DrawApi } from '../api/draw';
import type {
  FeedbackRequest,
  Guess,
  PredictRequest,
  PredictResponse,
  Taught,
  TaughtClass,
  TaughtExample,
} from '../schema';
import { FeedbackQueue, type Described } from './feedback';
import type { LocalLearner, LocalModel } from './local_model.svelte';
import type { Offline } from './offline.svelte';
import { reach } from './reach';
import type { LocalExample, QueuedItem } from './store';

const MAX_REMEMBERED = 200; // recorded guesses, about which feedback may come
const GALLERY = 'taught';

export interface LocalClassifier extends LocalLearner {
  guess(drawing: readonly number[]): Guess;
}

/** What the service listed as taught. sent: the items of the queue that it had accepted before, by id: of those that are
    not in the list, none counts any more. */
interface Listing {
  taught: Taught;
  sent: string[];
}

const NOTHING: Listing = { taught: { classes: [], rejected: [] }, sent: [] };

type Predicted = PredictResponse<Guess>;

export function createOfflineDrawApi(
  online: DrawApi,
  offline: Offline,
  local: LocalModel<LocalClassifier>,
  /** Whether this caller may teach. About a drawing that only this device knows, a name is teaching. */
  mayTeach: () => boolean,
): Offlineable<DrawApi> {
  const { queue, connection, newId } = offline;
  /** The drawings of recorded guesses, by the id of the prediction. */
  const drawings = new Map<string, { input: number[]; isLocal: boolean }>();
  let listed: { owner: string | null; listing: Listing } = { owner: null, listing: NOTHING };

  const remember = (id: string | undefined, input: number[] | undefined, isLocal: boolean) => {
    if (id === undefined || input === undefined) return;
    drawings.set(id, { input, isLocal });
    for (const oldest of drawings.keys()) {
      if (drawings.size <= MAX_REMEMBERED) break;
      drawings.delete(oldest);
    }
  };

  async function predict(request: PredictRequest<number[]>, signal?: AbortSignal) {
    const answer: Predicted = await reach(
      connection,
      () => online.predict(request, signal),
      (error) => guessLocally(request, error),
    );
    if (request.record && answer.prediction_ids.length > 0 && !drawings.has(answer.prediction_ids[0]!))
      remember(answer.prediction_ids[0], request.instances[0], false);
    return answer;
  }

  /** A drawing that is about to be named needs no guess. */
  async function guessLocally(request: PredictRequest<number[]>, error: ApiError): Promise<Predicted> {
    await feedback.whenStored();
    const { learner, version } = local;
    const instances: number[][] = request.instances;
    if (learner === null && !request.record) throw error;
    if (request.record && !mayTeach()) throw error; // the service would refuse the name later
    const nothing: Guess = { label: null, probabilities: {} };
    const prediction_ids = request.record ? instances.map(() => newId()) : [];
    for (const [place, id] of prediction_ids.entries()) remember(id, instances[place], true);
    return {
      predictions: instances.map((drawing) => learner?.guess(drawing) ?? nothing),
      prediction_ids,
      model_version: version ?? '',
      learned_until: learner?.learnedUntil ?? 0,
    };
  }

  function describe(feedback: FeedbackRequest): Described {
    const { id, prediction_id, ...content } = feedback;
    const drawing = drawings.get(prediction_id);
    const label = 'label' in content ? content.label : null;
    const example = drawing && label !== null ? { input: drawing.input, label, reward: 1 } : null;
    const opinion = { kind: 'name', title: label ?? '', example } as const;
    return drawing?.isLocal
      ? { ...opinion, isLocal: true, body: { ...content, id, input: drawing.input } }
      : { ...opinion, isLocal: false, body: feedback };
  }

  const feedback = new FeedbackQueue({
    online,
    queue,
    local,
    connection,
    newId,
    describe,
    exampleOf: (id) => exampleAmong(ownListing().taught.classes, id),
  });

  async function examples(of: 'user' | 'everyone', limit: number): Promise<Taught> {
    if (of === 'everyone') return online.examples(of, limit);
    const sent = queue.items.filter(({ state }) => state === 'sent').map(({ id }) => id);
    const { owner } = offline;
    const listing = await reach(
      connection,
      async () => {
        const found = { taught: await online.examples(of, limit), sent };
        void keepListing(found, owner);
        return found;
      },
      async () => (await offline.recall<Listing>(GALLERY, local.name, owner)) ?? NOTHING,
    );
    if (owner === offline.owner) listed = { owner, listing };
    return listShown();
  }

  /** Keep a list, if it is still the last one, and the service gave it for its owner. */
  async function keepListing(listing: Listing, owner: string | null) {
    await offline.confirmOwner();
    if (listing === listed.listing) await offline.remember(GALLERY, local.name, listing, owner);
  }

  /** What was listed last, unless that was for somebody else. */
  const ownListing = () => (listed.owner === offline.owner ? listed.listing : NOTHING);

  /** What was taught, with what is not in the list yet. */
  function listShown(): Taught {
    const { taught, sent } = ownListing();
    const later = queue.items.filter(({ model, id }) => model === local.name && !sent.includes(id));
    return withWaiting(taught, later);
  }

  async function forgetClass(label: string): Promise<number> {
    return reach(
      connection,
      () => online.forgetClass(label),
      async (error) => {
        const all = listShown().classes.find((one) => one.label === label);
        // Without the service, only the drawings that are listed can be taken back.
        if (!all || all.examples.length < all.count + all.held) throw error;
        for (const { id } of all.examples) await feedback.retract(id);
        return all.examples.length;
      },
    );
  }

  async function teachAgain(example: TaughtExample, label: string, id: string): Promise<void> {
    const { prediction_id, input } = example;
    const subject = prediction_id === null ? { input } : { prediction_id };
    await reach(
      connection,
      () => online.teachAgain(example, label, id),
      async (_, mayHaveArrived) => {
        const taught = input && { input, label, reward: 1 };
        const body = { id, ...subject, label };
        const opinion = { kind: 'name', title: label, body, example: taught } as const;
        await feedback.keep(opinion, mayHaveArrived);
      },
    );
  }

  return {
    ...online,
    predict,
    giveFeedback: feedback.giveFeedback,
    retract: feedback.retract,
    examples,
    forgetClass,
    teachAgain,
  };
}

function exampleAmong(classes: readonly TaughtClass[], id: string): LocalExample | null {
  for (const { label, examples } of classes)
    for (const one of examples)
      if (one.id === id && one.input !== null && one.status === 'learned')
        return { input: one.input, label, reward: 1 };
  return null;
}

/** What was taught, with the drawings that wait, and without those whose retraction waits. */
export function withWaiting(taught: Taught, items: readonly QueuedItem[]): Taught {
  const takenBack = new Set(items.map(({ of }) => of));
  const listed = new Set(taught.classes.flatMap(({ examples }) => examples.map(({ id }) => id)));
  const waiting = items.filter(
    ({ id, body, state }) => body?.label != null && state !== 'refused' && !listed.has(id) && !takenBack.has(id),
  );
  const kept = taught.classes
    .map((one) => {
      const examples = one.examples.filter(({ id }) => !takenBack.has(id));
      return { ...one, examples, count: one.count - (one.examples.length - examples.length) };
    })
    .filter(({ count, held }) => count + held > 0);
  let classes = kept;
  for (const item of waiting) {
    const label = String(item.body!.label);
    const before = classes.find((one) => one.label === label);
    const others = classes.filter((one) => one !== before);
    const { count = 0, examples = [] } = before ?? {};
    const changed = { label, active: true, held: 0, ...before, count: count + 1 };
    classes = [{ ...changed, examples: [toExample(item), ...examples] }, ...others];
  }
  return { ...taught, classes };
}

const toExample = ({ id, body, example, made_at, state }: QueuedItem): TaughtExample => ({
  id,
  prediction_id: body?.prediction_id ?? null,
  input: (example?.input as number[] | undefined) ?? null,
  status: state === 'sent' ? 'accepted' : 'waiting',
  offset: null,
  given_at: made_at,
});
