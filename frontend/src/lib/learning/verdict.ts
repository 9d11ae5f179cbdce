/* Words the verdict on a model from its codes and figures: pure functions. A code that is not known yet keeps the service's sentence. */

import { t } from '../messages';
import type { Health, HealthReason } from '../schema';
import { wordCause } from '../ui/causes';
import { capitalize, count, figure, percent } from '../ui/wording';
import { nameBegin, NO_PLACES, type Places } from './places';

export type Tone = 'good' | 'warn' | 'danger' | 'plain';

export interface WordedVerdict {
  tone: Tone;
  /** The status in words, and the reason that decides. */
  title: string;
  sentence: string;
  /** The other reasons. */
  others: string[];
  /** What can be done about it. */
  rollBackTo: string | null;
  mayFreeze: boolean;
  /** The version that answers since a roll back. */
  rolledBackTo: string | null;
  /** Whether the model is good, and its newest answers are somewhat worse than those before. */
  isDeclining: boolean;
  /** Whether the answers since a roll back are good again, and those before it still count among the newest. */
  isRecovering: boolean;
}

const TONES: Record<Health['status'], Tone> = {
  good: 'good',
  needs_attention: 'danger',
  not_learning: 'warn',
  too_little_feedback: 'plain',
};
const DECISIVE: Partial<Record<Health['status'], HealthReason['level']>> = {
  needs_attention: 'attention',
  not_learning: 'not_learning',
  too_little_feedback: 'unknown',
};

/** places: say to which judged answer an event belongs. */
export function wordVerdict(health: Health, places: Places = NO_PLACES): WordedVerdict {
  const { status } = health;
  const reasons = health.reasons.filter((each) => !isOfFall(each, health.reasons));
  const declining = reasons.find(({ code }) => code === 'declining');
  const recovering = status === 'good' ? reasons.find(({ code }) => code === 'recovering') : undefined;
  const isDeclining = status === 'good' && declining !== undefined && !recovering;
  const deciding = recovering ?? (isDeclining ? declining : reasons.find(({ level }) => level === DECISIVE[status]));
  const rollBackTo = deciding?.figures['roll_back_to'];
  const rolledBack = reasons.find(({ code }) => code === 'rolled_back');
  const learns = !reasons.some(({ level }) => level === 'not_learning');
  const isBefore = (reason: HealthReason) => isBeforeRollBack(reason, rolledBack);
  const word = (reason: HealthReason) =>
    wordReason(isBefore(reason) ? { ...reason, code: DRIFT_BEFORE } : reason, health, places, nameOlder(health));
  const helped = wordSinceRollBack(health, rolledBack, deciding);
  const verdict = {
    tone: isDeclining || recovering ? ('warn' as const) : TONES[status],
    title: recovering
      ? t.learning.verdict.recovering
      : isDeclining
        ? wordDecline(health)
        : t.learning.verdict.status[status],
    sentence: deciding ? word(deciding) : wordRecent(health),
    others: [
      rolledBack ? '' : helped,
      recovering && declining ? '' : wordOlderOnes(health),
      ...reasons
        .filter((reason) => reason !== deciding)
        .flatMap((each) => [word(each), each === rolledBack ? helped : '']),
    ]
      .filter((each) => each !== '')
      .map(capitalize),
    rollBackTo: typeof rollBackTo === 'string' ? rollBackTo : null,
    mayFreeze: learns && !!deciding && (isFall(deciding) || deciding.code === 'below_baseline'),
    rolledBackTo: rolledBack ? health.version : null,
    isDeclining,
    isRecovering: recovering !== undefined,
  };
  const isSettled = status !== 'needs_attention' && (!deciding || deciding.code === 'frozen' || learns);
  if (!rolledBack || !isSettled) return verdict;
  const words = t.learning.verdict;
  // While learning is stopped, the last 100 are left out until all of them are answers since the roll back.
  const isOfOthers = !learns && number(rolledBack.figures, 'count') < (health.recent?.count ?? 0);
  const leftOut = [...SAID, ...(isOfOthers ? ['declining', ...FALLS] : [])];
  return {
    ...verdict,
    isDeclining: false,
    isRecovering: false,
    tone: 'warn', // the remedy holds only while nothing is learned
    title: words.status.rolled_back,
    sentence: (learns ? words.answersForNow : words.answersStopped)(health.version),
    others: [
      helped,
      learns && !declining && !recovering ? wordRecent(health) : '',
      ...reasons.filter((each) => each !== rolledBack && !leftOut.includes(each.code)).map(word),
    ]
      .filter((each) => each !== '')
      .map(capitalize),
    mayFreeze: learns,
  };
}

/** What the verdict “Rolled back” says in other words. */
const SAID = ['frozen', 'recovering'];

const FALLS = ['accuracy_fell', 'error_rose'];
/** Whether the newest answers are worse than those before. */
export const isFall = (reason: HealthReason) => FALLS.includes(reason.code);

const DRIFT_BEFORE = 'drift_before_roll_back';

/** Whether a reason is an alarm that answers before the roll back in force have raised. */
function isBeforeRollBack({ code, figures }: HealthReason, rolledBack?: HealthReason): boolean {
  const at = rolledBack?.figures['since'];
  const isOfErrors = code === 'drift' && figures['what'] !== 'features';
  return isOfErrors && typeof at === 'number' && number(figures, 'offset') <= at;
}

/** Whether a reason is an alarm of the same event as a fall, which says it all. */
function isOfFall({ code, figures }: HealthReason, reasons: HealthReason[]): boolean {
  const isDrift = code === 'drift' || code === 'drift_over';
  const fall = isDrift && figures['what'] !== 'features' && reasons.find(isFall);
  return !!fall && number(figures, 'since') === number(fall.figures, 'since') + 1;
}

/** How good the newest answers are; "" without any. */
function wordRecent(health: Health): string {
  const { recent, measure } = health;
  if (recent === null) return '';
  const { right, error } = t.learning.verdict;
  return measure === 'error'
    ? error(figure(recent.mean), count(recent.count), nameOlder(health))
    : right(percent(recent.mean), count(recent.count), nameOlder(health));
}

/** Whether an older version answers than the newest, so that the figures of now are of that version and older ones. */
export const isRolledBack = ({ version, newest_version: newest }: Health) => newest !== version;

/** Whose answers those figures are of; "" if of all. */
const nameOlder = (health: Health) => (isRolledBack(health) ? t.learning.verdict.ofOlder(health.version) : '');

/** That the last answers are not all of after the last roll back, unless a fall says what they contain; "" otherwise. */
function wordOlderOnes(health: Health): string {
  const { status, reasons, recent, measure, last_roll_back: last } = health;
  const since = last?.judged?.count ?? 0;
  const isSaid = status !== 'good' || isRolledBack(health) || reasons.some(isFall);
  if (isSaid || since === 0 || recent === null || since >= recent.count) return '';
  const { olderRemain, olderErrorsRemain } = t.learning.verdict;
  return measure === 'error'
    ? olderErrorsRemain(count(recent.count), figure(recent.mean))
    : olderRemain(count(recent.count), percent(recent.mean));
}

/** How good the answers since a roll back are that is in force, or that followed a fall; "" before the first was judged. */
function wordSinceRollBack(
  { measure, last_roll_back: last }: Health,
  rolledBack?: HealthReason,
  deciding?: HealthReason,
): string {
  const isOver = !rolledBack && deciding && isFall(deciding);
  const judged = isOver ? last?.judged : null;
  const all = judged?.count ?? number(rolledBack?.figures ?? {}, 'count');
  const mean = judged?.mean ?? number(rolledBack?.figures ?? {}, 'after');
  if (all === 0) return '';
  const { sinceRollBack, errorSinceRollBack } = t.learning.verdict;
  return measure === 'error'
    ? errorSinceRollBack(figure(mean), count(all))
    : sinceRollBack(count(Math.round(all * mean)), count(all));
}

const wordDecline = ({ measure }: Health) =>
  measure === 'error' ? t.learning.verdict.errorsGrow : t.learning.verdict.falling;

type Figures = HealthReason['figures'];

const number = (figures: Figures, name: string) => Number(figures[name] ?? 0);
const events = (figures: Figures, name: string) => count(number(figures, name));
const text = (figures: Figures, name: string) => String(figures[name] ?? '');

/** The cause that the figures of a reason name, in words. */
const causeOf = (figures: Figures) =>
  wordCause(
    typeof figures['cause'] === 'string'
      ? { code: figures['cause'], figures: figures as Record<string, string | number> }
      : null,
    text(figures, 'reason'),
  );

/** whose: answers the figures of the newest answers are of, if not of all. */
export function wordReason(
  { code, level, figures, sentence }: HealthReason,
  { measure }: Health,
  places: Places = NO_PLACES,
  whose = '',
): string {
  const words = t.learning.verdict;
  const show = measure === 'error' ? figure : percent;
  const at = figures['since_at'];
  const since = (further = 0) =>
    nameBegin(places, number(figures, 'since') + further, typeof at === 'string' ? at : null);
  switch (code) {
    case 'accuracy_fell': {
      const right = Math.round(number(figures, 'count') * number(figures, 'after'));
      const before = show(number(figures, 'before'));
      const say = level === 'notice' ? words.fallRemains : words.accuracyFell;
      return say(since(1), count(right), events(figures, 'count'), before, whose);
    }
    case 'error_rose': {
      const [before, after] = [show(number(figures, 'before')), show(number(figures, 'after'))];
      const say = level === 'notice' ? words.riseRemains : words.errorRose;
      return say(since(1), after, events(figures, 'count'), before, whose);
    }
    case 'below_baseline': {
      const guessers: Record<string, string> = words.guessers;
      const guesser = guessers[text(figures, 'guesser')] ?? text(figures, 'guesser');
      const [other, model] = [show(number(figures, 'other')), show(number(figures, 'model'))];
      return words.belowBaseline(guesser, events(figures, 'count'), other, model);
    }
    case 'quarantine_open':
      return words.quarantine(since());
    case 'unservable':
      return words.unservable;
    case 'snapshots_rejected':
      return words.rejected(since(), text(figures, 'reason'));
    case 'much_refused':
    case 'some_refused':
      return words.refused(events(figures, 'refused'), events(figures, 'of'));
    case 'learner_stopped':
      return words.learnerStopped;
    case 'learner_restarting':
      return words.learnerRestarting(capitalize(causeOf(figures)));
    case 'declining':
      return (measure === 'error' ? words.errorGrows : words.declining)(
        show(number(figures, 'after')),
        events(figures, 'count'),
        show(number(figures, 'before')),
        events(figures, 'before_count'),
        whose,
      );
    case 'recovering': {
      const [all, mean] = [number(figures, 'count'), number(figures, 'after')];
      return measure === 'error'
        ? words.errorRecovered(show(mean), count(all))
        : words.recovered(count(Math.round(all * mean)), count(all));
    }
    case 'frozen': // its own `since` is when it began
      return words.frozen(causeOf({ ...figures, since: figures['cause_since'] ?? null }));
    case 'learning_again':
      return words.learningAgain(causeOf(figures));
    case 'behind':
      return words.behind(events(figures, 'events'), duration(number(figures, 'waiting_s')));
    case 'rolled_back':
      return words.rolledBack(text(figures, 'version'), text(figures, 'newest'));
    case 'drift':
      return (figures['what'] === 'features' ? words.driftFeatures : words.driftLoss)(since());
    case 'drift_over':
      return words.driftLossOver(since());
    case DRIFT_BEFORE:
      return words.driftLossBefore(since());
    case 'version_damaged':
      return words.damaged(text(figures, 'versions'));
    case 'events_expired':
      return words.expired(events(figures, 'until'));
    case 'too_few_ratings':
      return words.tooFew(events(figures, 'rated'), events(figures, 'enough'));
    case 'still_counting':
      return words.counting(events(figures, 'counted'), events(figures, 'of'));
    default:
      return `${sentence}.`;
  }
}

/** 90 -> "90 seconds", 7200 -> "2 hours". */
export function duration(seconds: number): string {
  const { durations } = t.learning;
  const units = [
    [86_400, durations.days],
    [3_600, durations.hours],
    [60, durations.minutes],
  ] as const;
  const [size, say] = units.find(([size]) => seconds >= 2 * size) ?? [1, durations.seconds];
  const shown = Math.round(seconds / size);
  return say(shown, count(shown));
}
