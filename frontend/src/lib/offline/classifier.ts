/* A classifier that answers on this device, made from the file that the service exports. */

import { Learner } from '../../../packages/learner/src';
import type { Guess } from '../schema';
import type { LocalClassifier } from './draw_api';
import { readLearnedUntil } from './learner_file';
import type { LocalExample } from './store';

const MAX_CANDIDATES = 20; // as the service answers by default

/** Raises an error for a file that is not one of a classifier of vectors. */
export function readClassifier(file: Uint8Array): LocalClassifier {
  const learner = Learner.read(file);
  const toExample = ({ input, label, reward }: LocalExample) => ({
    input: input as number[],
    label,
    reward,
  });
  return {
    learnedUntil: readLearnedUntil(file),
    learn: (example) => learner.learn([toExample(example)]),
    unlearn: (example) => learner.unlearn([toExample(example)]),
    guess: (drawing): Guess => {
      const { choice, candidates } = learner.predict(drawing);
      const likeliest = candidates.slice(0, MAX_CANDIDATES);
      const probabilities = Object.fromEntries(likeliest.map(({ id, score }) => [id, score]));
      return { label: choice, probabilities };
    },
  };
}
