/* A chat that answers on this device: it knows the replies that the service gives now, and their example questions.

     text --encode--> int8 features --exact sums, solved--> the chance of each reply --> reply, or none that is likely enough
     thumb, correction --> an example; for the same question, the last opinion decides

   It is simpler than the service: parts of words instead of meanings, unless this browser keeps the text encoder, and of
   what people have taught only what was taught in this browser. The reader of texts can change: the file holds texts.
*/

import { hashed, Learner } from '../../../packages/learner/src';
import type { Candidate, RankerPrediction, Reply } from '../schema';
import type { LocalLearner } from './local_model.svelte';
import type { LocalExample } from './store';

const FORMAT = 1;
const SAME = 0.95; // cosine of two questions that are the same but for a detail, as in the service
const MAX_CANDIDATES = 20;
const WIDTH = 384;
const MAX_LABELS = 100_000;
const LEARNER_TEMPERATURE = 4; // of a learner that has no held-out examples

/** What turns texts into features. */
export interface TextReader {
  /** The name of the features. */
  readonly epoch: string;
  /** The chance of a reply that is given. */
  readonly leastChance: number;
  /** Divides scores before they become chances: what the service fits to held-out examples of the shipped repertoire. */
  readonly temperature: number;
  /** The cosine of a question that is answered to the nearest known text. */
  readonly leastLikeness: number;
  encode(text: string): Promise<Int8Array>;
}

/** Reads words and parts of words. Measured with `python -m benchmarks.offline_replies` on the shipped repertoire. */
export const HASHED: TextReader = {
  ...hashed,
  leastChance: 0.3,
  temperature: 13.9,
  leastLikeness: 0.35, // questions in other languages are below
  encode: async (text) => hashed.encode(text),
};

interface KnownReply extends Reply {
  examples: string[];
}

/** A text with its features, and their length. */
interface Encoded {
  features: Int8Array;
  length: number;
}

/** An opinion that was given in this browser. */
interface Opinion {
  example: LocalExample;
  label: string;
}

/** What is made for the first answer of a reader, because it takes time. */
interface Made {
  reader: TextReader;
  learner: Learner;
  /** The texts of the file. */
  known: Encoded[];
  /** The opinions that were read; null for one that the reader refuses, which does not count. */
  read: Map<Opinion, Encoded | null>;
  /** Those that the learner has learned. */
  learned: Map<Opinion, Encoded>;
}

export class LocalReplies implements LocalLearner {
  readonly learnedUntil = 0;

  /** By id. */
  private replies: Map<string, KnownReply>;
  /** By text, without case and repeated spaces. */
  private ids: Map<string, string>;
  private opinions: Opinion[] = [];
  private made = new Map<TextReader, Promise<Made>>();
  private reader = HASHED;

  private constructor(replies: readonly KnownReply[]) {
    this.replies = new Map(replies.map((reply) => [reply.id, reply]));
    this.ids = new Map(replies.map(({ id, text }) => [fold(text), id]));
  }

  /** Raises an error for another file. */
  static read(file: Uint8Array): LocalReplies {
    const content = JSON.parse(new TextDecoder().decode(file)) as {
      format: number;
      replies: KnownReply[];
    };
    if (content.format !== FORMAT) throw new Error(`the file has the format ${content.format}`);
    return new LocalReplies(content.replies);
  }

  /** Every text of the file. */
  get texts(): string[] {
    return [...this.replies.values()].flatMap(({ text, examples }) => [...examples, text]);
  }

  /** Answer with the features of another reader. */
  readWith(reader: TextReader) {
    if (reader === this.reader) return;
    this.reader = reader;
    this.made.clear();
  }

  /** The reply with this text; one that is new has its text as its id. */
  idOf(text: string): string {
    return this.ids.get(fold(text)) ?? text;
  }

  /** Whether the service knows the reply. */
  knows(id: string): boolean {
    return this.replies.has(id);
  }

  learn(example: LocalExample) {
    const { label, text } = example;
    const id = text === undefined ? label : this.idOf(text);
    if (text === undefined && !this.replies.has(id)) return; // it is not given any more
    this.opinions.push({ example, label: id });
  }

  unlearn({ input, label, reward }: LocalExample) {
    const place = this.opinions.findLastIndex(
      ({ example: one }) => one.input === input && one.label === label && one.reward === reward,
    );
    if (place >= 0) this.opinions.splice(place, 1);
  }

  /** exclude: replies that were shown already; then the best of the others is given, however likely it is. */
  async answer(question: string, exclude: readonly string[] = []): Promise<RankerPrediction> {
    const { reader } = this;
    const prediction = await this.answerWith(reader, question, exclude).catch((error: unknown) => {
      if (reader === HASHED) throw error;
      return null;
    });
    if (reader !== this.reader) return this.answer(question, exclude); // such as when its worker has failed
    return prediction ?? this.answerWith(HASHED, question, exclude); // the reader refuses this question
  }

  private async answerWith(reader: TextReader, question: string, exclude: readonly string[]) {
    const made = await this.makeOnce(reader);
    const encoded = await encode(reader, question);
    await this.readOpinions(made);
    return this.choose(made, encoded, exclude);
  }

  private choose(made: Made, question: Encoded, exclude: readonly string[]): RankerPrediction {
    this.update(made);
    const { reader, learner, known, learned } = made;
    const { right, wrong } = findOpinions(learned, question);
    const { temperature, leastChance, leastLikeness } = reader;
    const candidates = withTemperature(learner.predict(question.features).candidates, temperature)
      .filter(({ id }) => !wrong.has(id) && !exclude.includes(id))
      .map(({ id, score }) => ({ id, score, text: this.textOf(id) }))
      .slice(0, MAX_CANDIDATES);
    const taught = candidates.find(({ id }) => id === right);
    const first = candidates[0];
    const isFamiliar = known.some((text) => likeness(text, question) >= leastLikeness);
    const isLikely = first !== undefined && first.score >= leastChance && isFamiliar;
    return toPrediction(taught ?? (isLikely || exclude.length > 0 ? first : undefined), candidates);
  }

  /** Read the opinions that are new, and those that come meanwhile. */
  private async readOpinions({ reader, read }: Made) {
    const findNew = () => this.opinions.find((opinion) => !read.has(opinion));
    for (let opinion = findNew(); opinion !== undefined; opinion = findNew())
      read.set(opinion, await encode(reader, inputOf(opinion)).catch(() => null));
  }

  /** Let the learner have learned exactly the opinions that were read. */
  private update({ learner, read, learned }: Made) {
    const opinions = new Set(this.opinions);
    for (const [opinion, encoded] of read) {
      const isLearned = learned.has(opinion);
      if (!opinions.has(opinion)) {
        read.delete(opinion);
        learned.delete(opinion);
        if (isLearned) learner.unlearn([toExample(opinion, encoded!)]);
      } else if (encoded !== null && !isLearned) {
        learner.learn([toExample(opinion, encoded)]);
        learned.set(opinion, encoded);
      }
    }
  }

  private makeOnce(reader: TextReader): Promise<Made> {
    const made = this.made.get(reader) ?? this.make(reader);
    this.made.set(reader, made);
    made.catch(() => this.made.delete(reader)); // the next question tries again
    return made;
  }

  private async make(reader: TextReader): Promise<Made> {
    const learner = Learner.create({
      input: 'features',
      size: WIDTH,
      reads: reader.epoch,
      maxLabels: MAX_LABELS,
    });
    const known: Encoded[] = [];
    const examples: { input: Int8Array; label: string }[] = [];
    for (const { id, text, examples: questions } of this.replies.values())
      for (const each of [...questions, text]) {
        const encoded = await encode(reader, each);
        known.push(encoded);
        examples.push({ input: encoded.features, label: id });
      }
    learner.learn(examples);
    return { reader, learner, known, read: new Map(), learned: new Map() };
  }

  private textOf(id: string): string {
    return this.replies.get(id)?.text ?? id;
  }
}

async function encode(reader: TextReader, text: string): Promise<Encoded> {
  const features = await reader.encode(text);
  return { features, length: Math.sqrt(dot(features, features)) || 1 };
}

const fold = (text: string) => text.toLowerCase().split(/\s+/).join(' ').trim();

const isPositive = ({ reward }: LocalExample) => reward >= 0.5;

const inputOf = ({ example: { input } }: Opinion) => String(input);

const toExample = ({ label, example: { reward } }: Opinion, { features }: Encoded) => ({
  input: features,
  label,
  reward,
});

/** What was said here about the same question: the reply that is right, and those that are wrong. The last word counts. */
function findOpinions(opinions: ReadonlyMap<Opinion, Encoded>, question: Encoded) {
  const wrong = new Set<string>();
  let right: string | null = null;
  for (const [{ example, label }, encoded] of opinions) {
    if (likeness(encoded, question) < SAME) continue;
    if (isPositive(example)) {
      right = label;
      wrong.delete(label);
    } else {
      wrong.add(label);
      if (right === label) right = null;
    }
  }
  return { right, wrong };
}

function toPrediction(reply: Candidate | undefined, candidates: Candidate[]): RankerPrediction {
  const given = reply && { id: reply.id, text: reply.text };
  return {
    reply: given ?? null,
    score: reply?.score ?? candidates[0]?.score ?? 0,
    propensity: 1,
    candidates,
    abstained: given === undefined,
  };
}

/** The chances that scores have at another temperature. */
function withTemperature<T extends { score: number }>(candidates: readonly T[], temperature: number) {
  const odds = candidates.map(({ score }) => score ** (LEARNER_TEMPERATURE / temperature));
  const total = odds.reduce((sum, each) => sum + each, 0);
  return candidates.map((each, place) => ({ ...each, score: odds[place]! / total }));
}

function dot(one: Int8Array, other: Int8Array): number {
  let sum = 0;
  for (let place = 0; place < one.length; place += 1) sum += one[place]! * other[place]!;
  return sum;
}

/** The cosine of two texts. */
const likeness = (one: Encoded, other: Encoded) => dot(one.features, other.features) / (one.length * other.length);
