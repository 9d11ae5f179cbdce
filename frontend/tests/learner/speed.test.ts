import { expect, test } from 'vitest';
import { Learner, type Example } from '../../packages/learner/src/index.js';

const TRIALS = 5;
const LONGEST_MS = 100; // from a thumb to the next answer

/** Numbers that look random, and are the same each time. */
function draw(seed: number) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return (state >>> 8) / 2 ** 24;
  };
}

const next = draw(3);

function makeExamples(count: number, size: number, classes: number, scale: number): Example[] {
  return Array.from({ length: count }, (_, place) => ({
    input: Array.from({ length: size }, () => Math.floor(scale * next())),
    label: `${place % classes}`,
  }));
}

/** The processor time of the shortest of a few trials: other processes take turns in any of them. */
function measure(learner: Learner, example: Example): number {
  const times = Array.from({ length: TRIALS }, () => {
    const started = process.cpuUsage();
    learner.learn([example]);
    learner.predict(example.input);
    const { user, system } = process.cpuUsage(started);
    return (user + system) / 1000;
  });
  return Math.min(...times);
}

test.each([
  ['digits', { input: 'vector', size: 64, scale: 16 } as const, 10],
  ['150 classes of texts', { input: 'features', size: 384 } as const, 150],
])('%s: an example changes the next answer in 100 ms', (_, options, classes) => {
  const learner = Learner.create(options);
  const examples = makeExamples(3 * classes, options.size, classes, 16);
  learner.learn(examples);
  expect(measure(learner, examples[0]!)).toBeLessThan(LONGEST_MS);
});
