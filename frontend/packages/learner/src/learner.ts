/* A classifier that learns where it runs, and whose sums are those of the service, integer for integer.

   file --read--> Learner --predict--> answer
                     ^ learn, unlearn, merge, subtract
                     `--write--> file, contribution --POST :merge--> service

   base: sums that were read or merged. own: those of the examples that were learned here. Both are solved together.
*/

import { Columns, type Column } from './columns.js';
import { listDigested } from './digest.js';
import { LearnerError } from './errors.js';
import { decideAtFirst, judge, parseDecision, type Answer, type Decision } from './judgement.js';
import { nameOptions, parseOptions, type CreateOptions, type Options } from './options.js';
import { sha256, toHex } from './sha256.js';
import { solve, type Solution } from './solution.js';
import { Sums, type Side, type Times } from './sums.js';
import { readSums, writeSums, type Meta } from './sums_file.js';

export interface Example {
  /** The numbers of a vector, or int8 features. */
  input: ArrayLike<number>;
  /** The right class; for a reward, what was answered. */
  label: string;
  /** How good the answer was, in [0, 1]. Below 0.5, it is an example of what the class is not. 1 by default. */
  reward?: number;
}

/** What the members of a cohort agree on, as the service describes it. */
export interface CohortTerms {
  parameters: { classes: readonly string[] };
  /** Features, D. */
  width: number;
  features: Record<string, unknown>;
}

const POSITIVE_REWARD = 0.5;
const ONE = 127; // the constant feature, which gives a ridge head an intercept

interface Row {
  features: Int8Array;
  label: string;
  side: Side;
}

export class Learner {
  private solution: Solution | null = null;

  private constructor(
    private readonly meta: Meta,
    private readonly options: Options,
    private readonly decision: Decision,
    private readonly columns: Columns | null,
    private readonly base: Sums,
    private readonly own: Sums,
  ) {}

  /** A learner without examples. */
  static create(options: CreateOptions): Learner {
    const named = nameOptions(options);
    const { isVector, scale, head } = parseOptions(named);
    const { size } = options;
    if (!Number.isInteger(size) || size < 1) throw new LearnerError(`size must be the length of an input, not ${size}`);
    if (isVector && scale === 0)
      throw new LearnerError('scale must be given: a learner outside the service fits no scales');
    const columns = isVector ? Columns.withScale(size, scale) : null;
    const meta = {
      kind: 'classifier',
      options: named,
      columns: columns?.columns ?? [],
      warm: false,
      reads: columns?.epoch ?? options.reads ?? 'features',
      octave: isVector ? Math.log2(32 * Math.sqrt(2 * size)) : TEXT_OCTAVE,
      decided: { ...decideAtFirst(head), at_count: 0, loss: 0 },
      model: '',
      version: '',
      learned_until: 0,
    };
    const width = columns ? columns.names.length : size;
    return Learner.open(meta, new Sums(Number(head === 'ridge') + width));
  }

  /** Continue from a file that a learner or the service has written.

      own: a contribution of this learner, if some of what the file holds was learned here and is not merged yet: it is
      part of the sums of the file, and of what `contribution` returns again. */
  static read(file: Uint8Array, own?: Uint8Array): Learner {
    const { sums, meta } = readSums(file);
    const learner = Learner.open(meta, sums);
    if (typeof meta['fingerprint'] === 'string' && learner.hash() !== meta['fingerprint'])
      throw new LearnerError('the sums of the file are not those of its fingerprint');
    if (own) {
      const part = learner.readOwn(own);
      learner.base.merge(part, -1);
      learner.own.merge(part);
    }
    return learner;
  }

  private static open(meta: Meta, sums: Sums): Learner {
    if (meta['kind'] !== 'classifier')
      throw new LearnerError(`a learner is a classifier, not a ${String(meta['kind'])}`);
    const options = parseOptions(meta['options']);
    if (meta['warm'] !== false)
      throw new LearnerError('the model still collects examples to fit its scales to; declare scale');
    if (typeof meta['reads'] !== 'string' || typeof meta['octave'] !== 'number')
      throw new LearnerError('the file must say how inputs are read');
    const columns = options.isVector ? Columns.parse(meta['columns'], options.size) : null;
    const first = Number(options.head === 'ridge');
    if (columns && sums.width !== first + columns.names.length)
      throw new LearnerError(`the sums have ${sums.width} features, not those of a vector`);
    const decision = parseDecision(meta['decided'], options.head);
    return new Learner(meta, options, decision, columns, sums, new Sums(sums.width));
  }

  // what it knows

  /** All classes, in the order in which they came. */
  get classes(): string[] {
    return [...new Set([...this.base.classes.keys(), ...this.own.classes.keys()])];
  }

  /** Positive examples. */
  get count(): number {
    return this.base.count + this.own.count;
  }

  get model(): string {
    return toText(this.meta['model']);
  }

  /** The version of the model that was read; "" for none. */
  get version(): string {
    return toText(this.meta['version']);
  }

  /** The name of the mapping from inputs to features. Sums are merged where it is the same. */
  get reads(): string {
    return toText(this.meta['reads']);
  }

  /** The length of an input. */
  get size(): number {
    return this.columns ? this.options.size : this.base.width - this.start;
  }

  /** Whether examples can be subtracted: not if the scales were fitted to some of them. */
  get subtracts(): boolean {
    return !this.options.isVector || this.options.scale > 0;
  }

  predict(input: ArrayLike<number>): Answer {
    this.solution ??= solve(this.total(), {
      ...this.options,
      ridgeRatio: this.decision.ridge_ratio,
    });
    const scores = this.solution.scores(this.read(input));
    return judge(this.solution.classes, scores, this.decision, this.options.abstainBelow);
  }

  // learning

  /** Learn all of the examples, or none. */
  learn(examples: readonly Example[]): void {
    const rows = examples.map((example) => this.readExample(example));
    const classes = new Set(this.classes);
    for (const { label } of rows) classes.add(label);
    this.checkClasses(classes);
    this.addRows(rows, 1);
  }

  /** Return to the sums that there would be if these examples had never been learned. */
  unlearn(examples: readonly Example[]): void {
    this.requireSubtraction();
    const rows = examples.map((example) => this.readExample(example));
    const taken = new Map<string, [number, number]>();
    for (const { label, side } of rows) {
      const counts = taken.get(label) ?? [0, 0];
      counts[side] += 1;
      taken.set(label, counts);
    }
    this.checkCounts([...taken]);
    this.addRows(rows, -1);
  }

  /** Add the sums of a contribution, or of another learner that reads alike. */
  merge(file: Uint8Array): void {
    const sums = this.readOwn(file);
    this.checkClasses(new Set([...this.classes, ...sums.classes.keys()]));
    this.checkCounts([...sums.classes].map(([label, { counts }]) => [label, negate(counts)]));
    this.base.merge(sums);
    this.solution = null;
  }

  /** Subtract the sums of a contribution that was merged. */
  subtract(file: Uint8Array): void {
    this.requireSubtraction();
    const sums = this.readOwn(file);
    this.checkCounts([...sums.classes].map(([label, { counts }]) => [label, counts]));
    this.base.merge(sums, -1);
    this.solution = null;
  }

  private addRows(rows: readonly Row[], times: Times): void {
    if (rows.length === 0) return;
    for (const { features, label, side } of rows) this.own.add(features, label, side, times);
    this.solution = null;
  }

  // files

  /** The file that `read` and the service continue from. */
  write(): Uint8Array<ArrayBuffer> {
    const total = this.total();
    return writeSums(total, { ...this.meta, fingerprint: this.hash(total) });
  }

  /** The sums of what was learned here since `create` or `read`, less what was unlearned: what `POST :merge` takes. */
  contribution(): Uint8Array<ArrayBuffer> {
    const { model, version, reads, columns, warm, octave } = this.meta;
    return writeSums(this.own.withoutEmpty(), { model, version, reads, columns, warm, octave });
  }

  /** The sums of what was learned here, as a member of a cohort sends them: of its classes in their order.

      Refused if the cohort adds up other features, or lacks a class that was learned here. */
  contributedValues({ parameters, width, features }: CohortTerms): Float64Array<ArrayBuffer> {
    this.checkReads(features, width);
    const ordered = new Sums(width);
    for (const label of parameters.classes) ordered.addClass(label);
    ordered.merge(this.own.withoutEmpty());
    const missing = [...ordered.classes.keys()].slice(parameters.classes.length);
    if (missing.length > 0)
      throw new LearnerError(`the cohort has no class ${missing.join(', ')}, which was learned here`);
    return putSquaresFirst(ordered.flatten(), ordered);
  }

  /** sha256 of what was learned: the same for any order of the same examples, and the same in the service. */
  async fingerprint(): Promise<string> {
    const subtle = (globalThis.crypto as Crypto | undefined)?.subtle;
    if (!subtle) return this.hash(); // outside a secure context
    const digest = await subtle.digest('SHA-256', this.listDigested());
    return toHex(new Uint8Array(await subtle.digest('SHA-256', this.prefix(new Uint8Array(digest)))));
  }

  private hash(total = this.total()): string {
    return toHex(sha256(this.prefix(sha256(this.listDigested(total)))));
  }

  private listDigested(total = this.total()): Uint8Array<ArrayBuffer> {
    const names = this.columns && [...(this.start ? ['#0'] : []), ...this.columns.names];
    return listDigested(total, names);
  }

  private prefix(digest: Uint8Array): Uint8Array<ArrayBuffer> {
    const title = new TextEncoder().encode(this.columns ? 'vector' : this.reads);
    return Uint8Array.of(...title, ...digest);
  }

  private total(): Sums {
    const total = this.base.copy();
    total.merge(this.own);
    return total;
  }

  // checks

  /** Features that come before those of the input. */
  private get start(): number {
    return Number(this.options.head === 'ridge');
  }

  private read(input: ArrayLike<number>): Int8Array {
    if (input.length !== this.size) throw new LearnerError(`an input has ${this.size} numbers, not ${input.length}`);
    const numbers = Array.from(input);
    const isValid = this.columns ? Number.isFinite : isInt8;
    const wrong = numbers.findIndex((value) => !isValid(value));
    if (wrong >= 0)
      throw new LearnerError(
        `an input has ${String(numbers[wrong])} at ${wrong} where ${this.columns ? 'a finite number' : 'an int8 number'} is expected`,
      );
    const features = this.columns ? this.columns.read(numbers) : Int8Array.from(numbers);
    return this.start ? Int8Array.of(ONE, ...features) : features;
  }

  private readExample({ input, label, reward = 1 }: Example): Row {
    if (typeof label !== 'string' || label.trim() === '' || label.includes('\0'))
      throw new LearnerError(
        `the label of an example must be the name of a class: a text that is not blank and without NUL, not ${JSON.stringify(label)}`,
      );
    if (/\p{Cs}/u.test(label)) throw new LearnerError('a label has half of a surrogate pair');
    if (!(reward >= 0 && reward <= 1)) throw new LearnerError(`a reward is in [0, 1], not ${reward}`);
    return { features: this.read(input), label, side: reward >= POSITIVE_REWARD ? 0 : 1 };
  }

  /** The sums of a file that was made of the same features. */
  private readOwn(file: Uint8Array): Sums {
    const { sums, meta } = readSums(file);
    this.checkReads(meta, sums.width);
    return sums;
  }

  /** Refuse sums of other features than those of this learner. */
  private checkReads(meta: Meta, width: number): void {
    if (meta['reads'] !== this.reads || meta['octave'] !== this.meta['octave'])
      throw new LearnerError(`sums of ${toText(meta['reads'])} cannot be merged with ${this.reads}`);
    if (width !== this.base.width) throw new LearnerError(`sums of ${width} features, not ${this.base.width}`);
  }

  private requireSubtraction(): void {
    if (!this.subtracts) throw new LearnerError('nothing can be subtracted: scales were fitted to examples');
  }

  private checkClasses(classes: ReadonlySet<string>): void {
    if (classes.size > this.options.maxLabels)
      throw new LearnerError(`more than ${this.options.maxLabels} classes (option max_labels)`);
  }

  /** Refuse to take more examples of a class than there are. */
  private checkCounts(taken: readonly [string, readonly [number, number]][]): void {
    for (const [label, counts] of taken)
      for (const side of [0, 1] as const) {
        const parts = [this.base, this.own].map((sums) => sums.classes.get(label)?.counts[side] ?? 0);
        if (counts[side] > parts[0]! + parts[1]!)
          throw new LearnerError(`fewer examples of ${label} were learned than are taken back`);
      }
  }
}

/** The diagonal of the Gram matrix before its other products, which need fewer bits in a cohort. */
function putSquaresFirst(values: Float64Array<ArrayBuffer>, { gram, width }: Sums) {
  const start = values.length - gram.length;
  for (let row = 0, at = 0, next = start + width; row < width; row += 1) {
    const end = at + width - row;
    values[start + row] = gram[at]!;
    values.set(gram.subarray(at + 1, end), next);
    next += end - at - 1;
    at = end;
  }
  return values;
}

const TEXT_OCTAVE = 10.35;

const negate = ([positive, negative]: [number, number]): [number, number] => [-positive, -negative];

const toText = (value: unknown) => (typeof value === 'string' ? value : '');

const isInt8 = (value: number) => Number.isInteger(value) && value >= -128 && value <= 127;

export type { Answer, Candidate } from './judgement.js';
export type { Column, CreateOptions };
