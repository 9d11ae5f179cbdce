/* Replays a scenario of scenarios.py with the package as it is published, in Node and in a browser. */

import { Learner, hashText } from './package/index.js';

const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

const toBase64 = (bytes) => {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
};

/** What the learner knows at the end, and the first step after which its fingerprint was another one. */
export async function replay({ create, file, steps, probes }) {
  const read = (value) => (typeof value === 'string' ? hashText(value) : value);
  const learner = create ? Learner.create(create) : Learner.read(fromBase64(file));
  let wrong = null;
  for (const [place, { operation, rows, file: sums, fingerprint }] of steps.entries()) {
    if (rows)
      learner[operation](rows.map(([value, label, reward]) => ({ input: read(value), label, reward })));
    else learner[operation](fromBase64(sums));
    if (wrong === null && fingerprint && (await learner.fingerprint()) !== fingerprint)
      wrong = `step ${place}, ${operation}`;
  }
  return {
    wrong,
    fingerprint: await learner.fingerprint(),
    reads: learner.reads,
    count: learner.count,
    file: toBase64(learner.write()),
    contribution: toBase64(learner.contribution()),
    answers: probes.map((value) => learner.predict(read(value)).candidates.map(({ id, score }) => [id, score])),
  };
}
