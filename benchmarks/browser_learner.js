/* Measures the package of the learner: what benchmarks/browser_learner.py runs in Node and in Chromium. */

import { Learner, hashText } from './package/index.js';

const TRIALS = 15;

const median = (times) => times.sort((one, other) => one - other)[Math.floor(times.length / 2)];

/** The median of some trials, in ms. each: runs once per trial. times: how often in one trial, for what is short. */
function measure(each, times = 1) {
  const trials = Array.from({ length: TRIALS }, () => {
    const started = performance.now();
    for (let time = 0; time < times; time += 1) each(time);
    return (performance.now() - started) / times;
  });
  return median(trials);
}

function measureLearner(options, examples) {
  const learner = Learner.create(options);
  learner.learn(examples);
  const [first] = examples;
  const learn = measure((place) => learner.learn([examples[place % examples.length]]), 100);
  const solve = measure(() => {
    learner.learn([first]);
    learner.predict(first.input);
  });
  const answer = measure(() => learner.predict(first.input), 100);
  const file = learner.write();
  return {
    learn,
    solve,
    answer,
    write: measure(() => learner.write()),
    read: measure(() => Learner.read(file)),
    file_kb: file.length / 1000,
  };
}

/** cases: by name, the options and examples of a learner. texts: to hash. */
export function run({ cases, texts }) {
  const results = Object.entries(cases).map(([name, { options, rows }]) => {
    const examples = rows.map(([input, label]) => ({ input, label }));
    return [name, measureLearner(options, examples)];
  });
  const hash = measure((place) => hashText(texts[place % texts.length]), 100);
  return { ...Object.fromEntries(results), hash };
}
