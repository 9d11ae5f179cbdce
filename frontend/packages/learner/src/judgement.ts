/* Probabilities from scores: calibrated, and with the learned chance that the best one is right.

   softmax(score / temperature)        confidence = logistic(log-odds of the best, how familiar the input is)

   What is used for both was fitted to held-out feedback in the service, and is kept as it is.
*/

import { LearnerError } from './errors.js';
import type { Head } from './solution.js';
import { isObject, type Meta } from './sums_file.js';

export interface Candidate {
  id: string;
  /** The probability that it is right. */
  score: number;
}

export interface Answer {
  /** null before anything was learned, and on abstention. */
  choice: string | null;
  /** The likeliest first. */
  candidates: Candidate[];
  /** The learned probability that the first candidate is right; 0 without candidates. */
  confidence: number;
  abstained: boolean;
}

/** What held-out feedback decided. */
export interface Decision {
  head: Head;
  temperature: number;
  ridge_ratio: number;
  confidence: { weights: [number, number, number]; centre: number; spread: number };
}

const PRIOR_TEMPERATURES = { slda: 4, ridge: 0.06 };

/** The decision of a model without held-out feedback. */
export const decideAtFirst = (head: Head): Decision => ({
  head,
  temperature: PRIOR_TEMPERATURES[head],
  ridge_ratio: 3e-4,
  confidence: { weights: [0, 1, 0], centre: 0, spread: 1 },
});

export function parseDecision(value: unknown, head: Head): Decision {
  const fit = isObject(value) && isObject(value['confidence']) ? value['confidence'] : {};
  const weights = Array.isArray(fit['weights']) ? (fit['weights'] as unknown[]) : [];
  const { temperature, ridge_ratio: ratio, head: decided }: Meta = isObject(value) ? value : {};
  const numbers = [...weights, fit['centre'], fit['spread'], temperature, ratio];
  const positive = [temperature, ratio, fit['spread']].every((each) => Number(each) > 0);
  const isValid = weights.length === 3 && numbers.every(Number.isFinite) && positive;
  if (!isValid || decided !== head) throw new LearnerError(`the file must say what was decided about head ${head}`);
  return value as Decision;
}

/** Judge the scores of classes. abstainBelow: the confidence below which nothing is chosen. */
export function judge(
  classes: readonly string[],
  scores: Float64Array,
  decision: Decision,
  abstainBelow: number,
): Answer {
  const best = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  const odds = scores.map((score) => Math.exp((score - best) / decision.temperature));
  const total = odds.reduce((sum, each) => sum + each, 0);
  const candidates = classes.map((id, place) => ({ id, score: odds[place]! / total }));
  candidates.sort((one, other) => other.score - one.score);
  const first = candidates[0];
  if (!first) return { choice: null, candidates, confidence: 0, abstained: false };
  const evidence = best / decision.temperature + Math.log(total);
  const familiarity = decision.head === 'ridge' ? best : evidence;
  const confidence = computeConfidence(decision.confidence, 1 / total, familiarity);
  const abstained = confidence < abstainBelow;
  return { choice: abstained ? null : first.id, candidates, confidence, abstained };
}

function computeConfidence(
  { weights, centre, spread }: Decision['confidence'],
  chance: number,
  familiarity: number,
): number {
  const odds = Math.log(chance + 1e-9) - Math.log1p(1e-9 - Math.min(chance, 1));
  const inputs = [1, limit(odds, 12), limit((familiarity - centre) / spread, 12)];
  const logit = inputs.reduce((sum, value, place) => sum + weights[place]! * value, 0);
  return 1 / (1 + Math.exp(-limit(logit, 30)));
}

const limit = (value: number, most: number) => Math.min(Math.max(value, -most), most);
