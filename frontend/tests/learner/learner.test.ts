import { expect, test } from 'vitest';
import { Learner, type Example } from '../../packages/learner/src/index.js';
import { compareCodePoints } from '../../packages/learner/src/digest.js';
import { readSums, writeSums, type Meta } from '../../packages/learner/src/sums_file.js';

/** Numbers that look random, and are the same each time. */
function draw(seed: number) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return (state >>> 8) / 2 ** 24;
  };
}

const SIZE = 4;

/** Points around the corner of their class. */
function makeExamples(count: number, seed = 1): Example[] {
  const next = draw(seed);
  return Array.from({ length: count }, (_, place) => ({
    input: Array.from({ length: SIZE }, (_, at) => (at === place % SIZE ? 8 : 0) + 6 * next()),
    label: `corner ${place % SIZE}`,
    reward: place % 9 === 8 ? 0 : 1,
  }));
}

const create = (head: 'slda' | 'ridge' = 'slda', more = {}) =>
  Learner.create({ input: 'vector', size: SIZE, scale: 16, head, ...more });

function learned(examples: Example[], head: 'slda' | 'ridge' = 'slda') {
  const learner = create(head);
  learner.learn(examples);
  return learner;
}

test.each(['slda', 'ridge'] as const)('%s learns to tell corners apart', (head) => {
  const learner = learned(makeExamples(80), head);
  const tests = makeExamples(40, 7);
  const right = tests.filter(({ input, label }) => learner.predict(input).choice === label);
  expect(right.length).toBeGreaterThan(36);
});

test('it has no answer before anything was learned', () => {
  const none = { choice: null, candidates: [], confidence: 0, abstained: false };
  expect(create().predict([0, 0, 0, 0])).toEqual(none);
  const learner = create();
  learner.learn([{ input: [0, 0, 0, 0], label: 'a', reward: 0 }]);
  expect(learner.predict([0, 0, 0, 0])).toEqual(none);
});

test('probabilities are sorted and add up to 1', () => {
  const { candidates, choice } = learned(makeExamples(30)).predict([1, 2, 3, 4]);
  expect(candidates.reduce((sum, { score }) => sum + score, 0)).toBeCloseTo(1, 12);
  expect(candidates.map(({ score }) => -score)).toEqual(
    candidates.map(({ score }) => -score).sort((one, other) => one - other),
  );
  expect(candidates[0]?.id).toBe(choice);
});

test('a thumb down makes an answer less likely at once', () => {
  const learner = learned(makeExamples(40));
  const input = [9, 1, 1, 1];
  const before = learner.predict(input).candidates[0]?.score ?? 0;
  learner.learn(Array<Example>(10).fill({ input, label: 'corner 0', reward: 0 }));
  const after = learner.predict(input).candidates.find(({ id }) => id === 'corner 0');
  expect(after?.score).toBeLessThan(before);
});

test('it abstains below the confidence that was asked for', () => {
  const learner = create('slda', { abstainBelow: 1 });
  learner.learn(makeExamples(20));
  const answer = learner.predict([1, 2, 3, 4]);
  expect([answer.choice, answer.abstained]).toEqual([null, true]);
  expect(answer.candidates).toHaveLength(SIZE);
});

test('the order of examples does not change the fingerprint', async () => {
  const examples = makeExamples(50);
  const fingerprint = await learned(examples).fingerprint();
  expect(await learned(examples.toReversed()).fingerprint()).toBe(fingerprint);
});

test('what was unlearned leaves no trace, not even its class', async () => {
  const examples = makeExamples(50);
  const learner = learned(examples);
  const others = [...makeExamples(9, 3), { input: [1, 1, 1, 1], label: 'another' }];
  learner.learn(others);
  learner.unlearn(others);
  expect(await learner.fingerprint()).toBe(await learned(examples).fingerprint());
});

test('contributions of two learners make the one that learned everything', async () => {
  const examples = makeExamples(60);
  const [one, other] = [learned(examples.slice(0, 20)), learned(examples.slice(20))];
  const merged = create();
  merged.merge(other.contribution());
  merged.merge(one.contribution());
  expect(await merged.fingerprint()).toBe(await learned(examples).fingerprint());
  merged.subtract(other.contribution());
  expect(await merged.fingerprint()).toBe(await one.fingerprint());
});

test('a contribution holds only what was learned since the file was read', async () => {
  const learner = Learner.read(learned(makeExamples(60)).write());
  expect(readSums(learner.contribution()).sums.classes.size).toBe(0);
  const own = makeExamples(5, 9);
  learner.learn(own);
  expect(await fingerprintOf(learner.contribution())).toBe(await learned(own).fingerprint());
  learner.unlearn(own);
  expect(readSums(learner.contribution()).sums.classes.size).toBe(0);
});

async function fingerprintOf(contribution: Uint8Array) {
  const learner = create();
  learner.merge(contribution);
  return learner.fingerprint();
}

test('the values for a cohort are the own sums, of its classes in their order', () => {
  const examples = makeExamples(12);
  const learner = Learner.read(learned(makeExamples(8, 5)).write());
  learner.learn(examples);
  const { sums, meta } = readSums(learner.contribution());
  const classes = ['corner 3', 'none', 'corner 0', 'corner 1', 'corner 2'];
  const cohort = { parameters: { classes }, width: sums.width, features: meta };
  const values = learner.contributedValues(cohort);
  expect([...values.slice(0, 10)]).toEqual([3, 0, 2, 3, 3, 0, 0, 1, 0, 0]);
  expect([...values.slice(10, 10 + sums.width)]).toEqual([...sums.classes.get('corner 3')!.sums[0]]);
  const products = values.slice(-sums.gram.length);
  expect(products.slice(0, 2)).toEqual(Float64Array.of(sums.gram[0]!, sums.gram[sums.width]!));
  expect(products.slice(sums.width, 2 * sums.width)).toEqual(
    Float64Array.of(...sums.gram.slice(1, sums.width), sums.gram[sums.width + 1]!),
  );
  expect(products.toSorted()).toEqual(sums.gram.toSorted());
  expect(values.length).toBe(10 * (1 + sums.width) + sums.gram.length);
  expect(() => learner.contributedValues({ ...cohort, parameters: { classes: ['none'] } })).toThrow(
    'the cohort has no class corner 0, corner 1, corner 2, corner 3',
  );
  expect(() => learner.contributedValues({ ...cohort, width: 3 })).toThrow('sums of 3 features');
  expect(() => learner.contributedValues({ ...cohort, features: {} })).toThrow('cannot be merged');
});

test('a file and its contribution are read again without counting anything twice', async () => {
  const learner = learned(makeExamples(60));
  const again = Learner.read(learner.write(), learner.contribution());
  expect(await again.fingerprint()).toBe(await learner.fingerprint());
  expect(again.contribution()).toEqual(learner.contribution());
});

test.each(['slda', 'ridge'] as const)('a file of %s is read as it was written', async (head) => {
  const learner = learned(makeExamples(60), head);
  const again = Learner.read(learner.write());
  expect(await again.fingerprint()).toBe(await learner.fingerprint());
  expect(again.predict([1, 2, 3, 4])).toEqual(learner.predict([1, 2, 3, 4]));
  expect(again.write()).toEqual(learner.write());
  expect([again.classes, again.count]).toEqual([learner.classes, learner.count]);
});

test('features are learned as they are', async () => {
  const learner = Learner.create({ input: 'features', size: 3, reads: 'ours' });
  learner.learn([
    { input: Int8Array.of(-128, 0, 127), label: 'a' },
    { input: [1, 2, 3], label: 'b' },
  ]);
  expect(learner.predict([-100, 0, 100]).choice).toBe('a');
  expect(Learner.read(learner.write()).reads).toBe('ours');
});

test.each<[string, Partial<Example>, string]>([
  ['a short input', { input: [1] }, '4 numbers, not 1'],
  ['a number that is not finite', { input: [1, NaN, 1, 1] }, 'NaN at 1'],
  ['no label', { label: '' }, 'label'],
  ['a blank label', { label: ' \u2028' }, 'blank'],
  ['a missing label', { label: undefined as unknown as string }, 'not undefined'],
  ['a label that is a number', { label: 7 as unknown as string }, 'not 7'],
  ['a label with NUL', { label: 'a\0' }, 'NUL'],
  ['half a character', { label: 'a\ud800' }, 'surrogate'],
  ['a reward out of range', { reward: 2 }, '[0, 1]'],
  ['a reward that is no number', { reward: NaN }, '[0, 1]'],
])('%s is refused and changes nothing', async (_, wrong, message) => {
  const learner = learned(makeExamples(8));
  const before = await learner.fingerprint();
  const good: Example = { input: [1, 1, 1, 1], label: 'new' };
  expect(() => learner.learn([good, { ...good, ...wrong }])).toThrow(message);
  expect(await learner.fingerprint()).toBe(before);
  expect(learner.classes).not.toContain('new');
});

test('more classes than allowed are refused', () => {
  const learner = create('slda', { maxLabels: 4 });
  learner.learn(makeExamples(8));
  expect(() => learner.learn([{ input: [1, 1, 1, 1], label: 'fifth' }])).toThrow('4 classes');
  expect(() => create('slda', { maxLabels: 3 }).merge(learner.contribution())).toThrow('3 classes');
});

test('what was never learned cannot be unlearned', () => {
  const learner = learned(makeExamples(8));
  expect(() => learner.unlearn(makeExamples(12))).toThrow('taken back');
  expect(() => learner.subtract(learned(makeExamples(20)).contribution())).toThrow('taken back');
});

test('sums of other features are refused', () => {
  const other = Learner.create({ input: 'vector', size: SIZE, scale: 1 });
  expect(() => create().merge(other.contribution())).toThrow('cannot be merged');
});

test('nothing is subtracted where scales were fitted to examples', () => {
  const file = changed(learned(makeExamples(8)).write(), (meta) => {
    meta['options'] = { ...(meta['options'] as Meta), scale: 0 };
  });
  const learner = Learner.read(file);
  learner.learn(makeExamples(3));
  expect(() => learner.unlearn(makeExamples(1))).toThrow('fitted');
});

/** The file with other metadata. */
function changed(file: Uint8Array, change: (meta: Meta) => void): Uint8Array {
  const { sums, meta } = readSums(file);
  change(meta);
  return writeSums(sums, meta);
}

test.each<[string, Meta]>([
  ['outside', { outside: 'none' }],
  ['window', { window: 5 }],
  ['drift_window', { drift_window: 5 }],
  ['max_age', { max_age: 5 }],
  ['head', { head: 'rp_ridge' }],
  ['input', { input: 'table' }],
  ['an_option_to_come', { an_option_to_come: 1 }],
])('option %s is refused with its name', (name, options) => {
  const file = changed(create().write(), (meta) => {
    meta['options'] = { ...(meta['options'] as Meta), ...options };
  });
  expect(() => Learner.read(file)).toThrow(name);
});

test.each<[string, Meta, string]>([
  ['of another kind', { kind: 'regressor' }, 'regressor'],
  ['of a model that fits its scales', { warm: true }, 'scale'],
  ['without columns', { columns: [] }, '4 numbers'],
  ['with a temperature of 0', { decided: { head: 'slda', temperature: 0 } }, 'decided'],
  ['with the fingerprint of other sums', { fingerprint: 'ab' }, 'fingerprint'],
])('a file %s is refused', (_, own, message) => {
  const file = changed(learned(makeExamples(8)).write(), (meta) => Object.assign(meta, own));
  expect(() => Learner.read(file)).toThrow(message);
});

test('what is no file of sums is refused', () => {
  const file = create().write();
  const noise = Uint8Array.from({ length: 64 }, (_, at) => at * 91);
  for (const data of [new Uint8Array(0), noise, file.slice(0, 40), file.slice(0, -1)])
    expect(() => Learner.read(data)).toThrow();
});

test('sums that would no longer be exact are refused', () => {
  const { sums, meta } = readSums(learned(makeExamples(8)).write());
  sums.gram[0] = Number.MAX_SAFE_INTEGER - 5;
  delete meta['fingerprint'];
  const learner = Learner.read(writeSums(sums, meta));
  expect(() => learner.merge(learner.contribution())).not.toThrow();
  expect(() => learner.merge(learned(makeExamples(8)).contribution())).toThrow('2^53');
  sums.gram[0] = 2 ** 53;
  expect(() => Learner.read(writeSums(sums, meta))).toThrow('2^53');
});

test('names are compared by code points', () => {
  const names = ['\u{10000}', '\uffff', 'a', '', 'ab', '\ue000', 'é'];
  const sorted = ['', 'a', 'ab', 'é', '\ue000', '\uffff', '\u{10000}'];
  expect(names.sort(compareCodePoints)).toEqual(sorted);
});

test('options that a learner does not have are refused', () => {
  expect(() => Learner.create({ input: 'vector', size: 4 })).toThrow('scale');
  expect(() => Learner.create({ input: 'features', size: 0 })).toThrow('size');
  expect(() => create('slda', { shrinkage: -1 })).toThrow('shrinkage');
});
