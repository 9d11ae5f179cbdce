/* A chat that answers on this device: it knows the replies that the service gives now, and their example questions.

     text --encode--> int8 features --exact sums, solved--> the chance of each reply --> reply, or none that is likely enough
     thumb, correction --> an example; for the same question, the last opinion decides

   It is simpler than the service: parts of words instead of meanings, and of what people have taught only what was
   taught in this browser. The encoder can be another one: the file holds texts.
*/

import { hashed, Learner } from '../../../packages/learner/src';
import type { Candidate, RankerPrediction, Reply } from '../schema';
import type { LocalLearner } from './local_model.svelte';
import type { LocalExample } from './store';

const FORMAT = 1;
/* Measured with `python -m benchmarks.offline_replies` on the shipped repertoire. */
const LEAST_CHANCE = 0.3; // of a reply that is given
const LEAST_LIKENESS = 0.35; // cosine to the nearest known text: questions in other languages are below
const SAME = 0.95; // cosine of two questions that are the same but for a detail, as in the service
const MAX_CANDIDATES = 20;
const WIDTH = 384;
const MAX_LABELS = 100_000;

/** epoch: the name of the features. */
interface Encoder {
  readonly epoch: string;
  encode(text: string): Int8Array;
}

interface KnownReply extends Reply {
  examples: string[];
}

/** A text with its features, and their length. */
interface Encoded {
  features: Int8Array;
  length: number;
}

/** An opinion that was given in this browser. */
interface Opinion extends Encoded {
  example: LocalExample;
  label: string;
}

export class LocalReplies implements LocalLearner {
  readonly learnedUntil = 0;

  /** By id. */
  private replies: Map<string, KnownReply>;
  /** By text, without case and repeated spaces. */
  private ids: Map<string, string>;
  private opinions: Opinion[] = [];
  /** What takes time is made for the first answer. */
  private made: { learner: Learner; known: Encoded[] } | null = null;

  private constructor(
    replies: readonly KnownReply[],
    private encoder: Encoder,
  ) {
    this.replies = new Map(replies.map((reply) => [reply.id, reply]));
    this.ids = new Map(replies.map(({ id, text }) => [fold(text), id]));
  }

  /** Raises an error for another file. */
  static read(file: Uint8Array, encoder: Encoder = hashed): LocalReplies {
    const content = JSON.parse(new TextDecoder().decode(file)) as {
      format: number;
      replies: KnownReply[];
    };
    if (content.format !== FORMAT) throw new Error(`the file has the format ${content.format}`);
    return new LocalReplies(content.replies, encoder);
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
    const opinion = this.toOpinion(example);
    if (opinion === null) return;
    this.opinions.push(opinion);
    this.made?.learner.learn([toExample(opinion)]);
  }

  unlearn(example: LocalExample) {
    const { input, label, reward } = example;
    const place = this.opinions.findLastIndex(
      ({ example: one }) => one.input === input && one.label === label && one.reward === reward,
    );
    if (place < 0) return;
    const [opinion] = this.opinions.splice(place, 1);
    this.made?.learner.unlearn([toExample(opinion!)]);
  }

  /** exclude: replies that were shown already; then the best of the others is given, however likely it is. */
  answer(question: string, exclude: readonly string[] = []): RankerPrediction {
    const encoded = this.encode(question);
    const { learner, known } = this.make();
    const { right, wrong } = this.findOpinions(encoded);
    const candidates = learner
      .predict(encoded.features)
      .candidates.filter(({ id }) => !wrong.has(id) && !exclude.includes(id))
      .map(({ id, score }) => ({ id, score, text: this.textOf(id) }))
      .slice(0, MAX_CANDIDATES);
    const taught = candidates.find(({ id }) => id === right);
    const first = candidates[0];
    const isFamiliar = known.some((text) => likeness(text, encoded) >= LEAST_LIKENESS);
    const isLikely = first !== undefined && first.score >= LEAST_CHANCE && isFamiliar;
    return toPrediction(taught ?? (isLikely || exclude.length > 0 ? first : undefined), candidates);
  }

  private make() {
    if (this.made !== null) return this.made;
    const { epoch: reads } = this.encoder;
    const learner = Learner.create({
      input: 'features',
      size: WIDTH,
      reads,
      maxLabels: MAX_LABELS,
    });
    const known: Encoded[] = [];
    const examples = [...this.replies.values()].flatMap(({ id, text, examples }) =>
      [...examples, text].map((each) => {
        const encoded = this.encode(each);
        known.push(encoded);
        return { input: encoded.features, label: id };
      }),
    );
    learner.learn([...examples, ...this.opinions.map(toExample)]);
    return (this.made = { learner, known });
  }

  /** What was said here about the same question: the reply that is right, and those that are wrong. The last word counts. */
  private findOpinions(question: Encoded): { right: string | null; wrong: Set<string> } {
    const wrong = new Set<string>();
    let right: string | null = null;
    for (const opinion of this.opinions) {
      if (likeness(opinion, question) < SAME) continue;
      const { label } = opinion;
      if (isPositive(opinion.example)) {
        right = label;
        wrong.delete(label);
      } else {
        wrong.add(label);
        if (right === label) right = null;
      }
    }
    return { right, wrong };
  }

  /** null: it is about a reply that is not given any more. */
  private toOpinion(example: LocalExample): Opinion | null {
    const { label, text } = example;
    const id = text === undefined ? label : this.idOf(text);
    if (text === undefined && !this.replies.has(id)) return null;
    return { ...this.encode(String(example.input)), example, label: id };
  }

  private textOf(id: string): string {
    return this.replies.get(id)?.text ?? id;
  }

  private encode(text: string): Encoded {
    const features = this.encoder.encode(text);
    return { features, length: Math.sqrt(dot(features, features)) || 1 };
  }
}

const fold = (text: string) => text.toLowerCase().split(/\s+/).join(' ').trim();

const isPositive = ({ reward }: LocalExample) => reward >= 0.5;

const toExample = ({ features, label, example: { reward } }: Opinion) => ({
  input: features,
  label,
  reward,
});

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

function dot(one: Int8Array, other: Int8Array): number {
  let sum = 0;
  for (let place = 0; place < one.length; place += 1) sum += one[place]! * other[place]!;
  return sum;
}

/** The cosine of two texts. */
const likeness = (one: Encoded, other: Encoded) =>
  dot(one.features, other.features) / (one.length * other.length);
