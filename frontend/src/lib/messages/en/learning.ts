import { plural } from '../plural';

export const learning = {
  title: 'Learning',
  lead: 'How good the answers are now, and what the model has learned.',
  chart: {
    accuracy: 'Accuracy',
    error: 'Mean error',
    note: 'Every answer is judged before the model may learn from it. Dashed, for comparison: two ways of guessing blindly.',
    moving: (count: string) => `Moving average of ${count} judged answers:`,
    span: (first: string, last: string, time: string) => `answers ${first}–${last}${time && ` · ${time}`}`,
    fall: 'the fall begins',
    marks: 'what happened',
    versionTick: 'version went live',
    wentLive: (first: string, last: string) =>
      first === last ? `version ${last} went live` : `versions ${first} to ${last} went live`,
    rollBack: 'roll back',
    guardRolledBack: (version: string) => `the guard rolled back to version ${version}`,
    liveAgain: (version: string) => `version ${version} answers again`,
    rolledBack: (version: string) => `rolled back to version ${version}`,
    guessers: (isError: boolean): string =>
      isError
        ? 'Blind guesses: the last number again, or the mean so far. Each point is the mean of the newest tenth of the judgements, at least 20. A judgement stays counted if the rating is changed or taken back later.'
        : 'Blind guesses: again what was right the last time, or always what is right most often. Each point is the mean of the newest tenth of the judgements, at least 20. A judgement stays counted if the rating is changed or taken back later.',
    lines: 'the lines',
    replay: 'Replay the whole log',
    counting: (counted: string, head: string) =>
      `Counted ${counted} of ${head} ${plural(head, 'event', 'events')} so far.`,
    empty: 'No answer has been judged yet.',
    unknown: 'Not known: the figures could not be read.',
    xLabel: 'judged answers',
    names: {
      served: 'model',
      no_change: 'guess: same as last time',
      majority: 'guess: the most usual',
      mean: 'guess: the mean so far',
    },
    alarm: 'alarm',
    asTable: 'As a table',
    tableOf: (title: string) => `${title}, as a table`,
    loading: 'Loading the plot…',
    notLoaded: 'The plot could not be loaded; its numbers are below.',
    alarmOf: (what: string) => `alarm: ${what}`,
  },
  verdict: {
    label: 'Verdict',
    waiting: 'Reading the figures…',
    status: {
      good: 'Good',
      needs_attention: 'Needs attention',
      not_learning: 'Not learning',
      too_little_feedback: 'Cannot judge yet',
      rolled_back: 'Rolled back',
    },
    /** Of an event of which nothing else is known. */
    event: (offset: string) => `event ${offset}`,
    place: (time: string, answer: string) =>
      time && answer ? `${time} (judged answer ${answer})` : time || `judged answer ${answer}`,
    falling: 'Good, but falling',
    errorsGrow: 'Good, but with growing errors',
    declining: (after: string, count: string, before: string, earlier: string, whose: string) =>
      `${after} of the last ${count} judged answers${whose} were right, ${before} of the ${earlier} before.`,
    errorGrows: (after: string, count: string, before: string, earlier: string, whose: string) =>
      `the mean error of the last ${count} answers${whose} is ${after}, of the ${earlier} before ${before}.`,
    recovering: 'Recovering',
    recovered: (right: string, count: string) =>
      `${right} of the ${count} judged ${plural(count, 'answer', 'answers')} since the roll back ${plural(right, 'was', 'were')} right.`,
    errorRecovered: (error: string, count: string) =>
      `the mean error of the ${count} judged ${plural(count, 'answer', 'answers')} since the roll back is ${error}.`,
    fallRemains: (since: string, right: string, count: string, before: string) =>
      `the last ${count} judged answers still contain the fall since ${since}: ${right} of them were right; before, ${before}.`,
    riseRemains: (since: string, after: string, count: string, before: string) =>
      `the last ${count} answers still contain the larger errors since ${since}: their mean error is ${after}; before, ${before}.`,
    titled: (title: string) => `${title}:`,
    also: 'Also',
    right: (share: string, count: string, whose: string) =>
      `${share} of the last ${count} judged ${plural(count, 'answer', 'answers')}${whose} ${plural(count, 'was', 'were')} right.`,
    error: (mean: string, count: string, whose: string) =>
      `the mean error of the last ${count} ${plural(count, 'answer', 'answers')}${whose} is ${mean}.`,
    accuracyFell: (since: string, right: string, count: string, before: string, whose: string) =>
      `since ${since}, only ${right} of the last ${count} judged answers${whose} were right; before, ${before}.`,
    errorRose: (since: string, after: string, count: string, before: string, whose: string) =>
      `since ${since}, the mean error of the last ${count} answers${whose} is ${after}; before, ${before}.`,
    belowBaseline: (guesser: string, count: string, other: string, model: string) =>
      `the model is no better than blindly saying ${guesser}: on the last ${count} answers that gives ${other}, the model ${model}.`,
    guessers: {
      no_change: 'the same as last time',
      majority: 'always the same answer',
      mean: 'always the mean so far',
    },
    quarantine: (since: string) =>
      `the guard rolled the model back. Decide below what the feedback since ${since} is worth.`,
    unservable: 'no version of the model can be loaded.',
    rejected: (since: string, reason: string) =>
      `nothing learned since ${since} goes live, because the gate refuses it: ${reason}.`,
    refused: (refused: string, of: string) =>
      plural(of, 'the only event could not be learned.', `${refused} of the last ${of} events could not be learned.`),
    learnerStopped: 'the learner is not running. Feedback is kept.',
    learnerRestarting: (reason: string) => `the learner is starting again. Feedback is kept. ${reason}`,
    frozen: (reason: string) =>
      reason ? `learning is stopped (${reason}). Feedback is kept.` : 'learning is stopped. Feedback is kept.',
    learningAgain: (reason: string) => `the model is learning its log again: ${reason}.`,
    behind: (events: string, waiting: string) =>
      plural(
        events,
        `one event is not learned yet; it has waited for ${waiting}.`,
        `${events} events are not learned yet; the oldest has waited for ${waiting}.`,
      ),
    /** Whose answers the figures are of while an older version answers. */
    ofOlder: (version: string) => ` of version ${version} and older ones`,
    olderRemain: (count: string, share: string) =>
      `the last ${count} judged answers still contain some from before the roll back: ${share} of the ${count} were right.`,
    olderErrorsRemain: (count: string, mean: string) =>
      `the last ${count} answers still contain some from before the roll back: their mean error is ${mean}.`,
    rolledBack: (version: string, newest: string) =>
      `rolled back: version ${version} answers, version ${newest} is the newest.`,
    sinceRollBack: (right: string, count: string) =>
      `since the roll back: ${right} of ${count} judged ${plural(count, 'answer', 'answers')} right.`,
    errorSinceRollBack: (error: string, count: string) =>
      `since the roll back: mean error ${error} in ${count} judged ${plural(count, 'answer', 'answers')}.`,
    answersForNow: (version: string) =>
      `version ${version} answers until the next rating is learned. Then the newest version does again.`,
    answersStopped: (version: string) => `version ${version} answers. Learning is stopped.`,
    driftLoss: (since: string) => `errors became more frequent since about ${since}.`,
    driftLossOver: (since: string) =>
      `errors were more frequent for a while from about ${since}; they are as rare as before.`,
    driftLossBefore: (since: string) => `before the roll back, errors became more frequent from about ${since}.`,
    driftFeatures: (since: string) => `the inputs changed since about ${since}.`,
    damaged: (versions: string) => `cannot be loaded: version ${versions}.`,
    expired: (until: string) => `events up to ${until} expired before they could be learned.`,
    tooFew: (rated: string, enough: string) =>
      `a verdict needs ${enough} judged answers to requests, and there ${plural(rated, 'is', 'are')} ${rated} so far.`,
    counting: (counted: string, of: string) =>
      `${counted} of ${of} ${plural(of, 'event', 'events')} ${plural(counted, 'is', 'are')} counted so far.`,
  },
  durations: {
    seconds: (count: number, shown: string) => `${shown} ${plural(count, 'second', 'seconds')}`,
    minutes: (count: number, shown: string) => `${shown} ${plural(count, 'minute', 'minutes')}`,
    hours: (count: number, shown: string) => `${shown} ${plural(count, 'hour', 'hours')}`,
    days: (count: number, shown: string) => `${shown} ${plural(count, 'day', 'days')}`,
  },
  recent: {
    label: 'Answers now',
    last: (count: string) => plural(count, 'Last judged answer', `Last ${count} judged answers`),
    lastError: (count: string) => plural(count, 'Error of the last answer', `Mean error of the last ${count} answers`),
    lastOfOlder: (count: string, version: string) =>
      `Last ${count} judged ${plural(count, 'answer', 'answers')} of version ${version} and older`,
    lastErrorOfOlder: (count: string, version: string) =>
      `Mean error of the last ${count} ${plural(count, 'answer', 'answers')} of version ${version} and older`,
    right: 'right',
    none: 'Nothing judged yet',
    unknown: 'Answers now: not known',
    unknownNote: 'The figures could not be read.',
    /** Before there are enough judgements for a figure. */
    soFar: (rated: string, enough: string) =>
      `${rated} of ${enough} judged ${plural(enough, 'answer', 'answers')} to requests`,
    tooFew: (missing: number, shown: string) =>
      `A share is shown after ${shown} more ${plural(missing, 'rating', 'ratings')}: until then it would mostly be chance.`,
    guesser: (guesser: string) => `For comparison: ${guesser}`,
    guesserHint:
      'What blind guessing would have reached on the same questions: the better one of saying again what was right the last time, and of always giving the same answer. It is counted where the feedback says which answer is right: a bad rating tells nothing of another answer. A useful model is far better.',
    lifetime: 'All judged answers',
    judgements: (count: number, shown: string) => `${shown} ${plural(count, 'answer', 'answers')}`,
    lifetimeHint:
      'Each rating judges the answer that was given before it, once, when it comes. A label that comes with its input judges what the model answers to that before it learns it. A judgement stays counted if the rating is changed or taken back later.',
    standing: 'Ratings that stand',
    standingHint:
      'What people say now: one rating for each person and answer, without those that were changed or taken back. The repertoire and the use count the same.',
    good: (good: string) => `${good} good`,
    guessed: (count: string, isAll: boolean) => (isAll ? `on the same ${count}` : `on the ${count} that judge it`),
    trend: (values: string) => `The newest judged answers in groups of 50, oldest first: ${values}`,
    trendAll: (count: string) => `All ${count} judged answers, about 50 a point`,
    trendNewest: (count: string) => `Newest ${count} judged answers to requests, about 50 a point`,
    trendRolledBack: (count: string) => `${count} judged answers of this version and older ones, about 50 a point`,
    from: (answer: string, time: string) => (time ? `from answer ${answer} · ${time}` : `from answer ${answer}`),
    to: (answer: string, time: string) => (time ? `to answer ${answer} · ${time}` : `to answer ${answer}`),
  },
  learner: {
    label: 'Current status',
    title: 'Now',
    state: 'Learning',
    states: {
      running: 'on',
      restarting: 'starting again',
      stopped: 'stopped',
      external: 'on, in another process',
      unknown: 'unknown',
    },
    frozen: (reason: string) => (reason ? `stopped: ${reason}` : 'stopped'),
    version: 'Live version',
    rolledBack: (previous: string) => `rolled back from ${previous}`,
    newest: (newest: string) => `the newest is ${newest}`,
    learnedUntil: 'Has learned',
    learnedHint:
      'The live version has learned everything that was given up to then: ratings, corrections and taught answers.',
    learned: (place: string) => `up to ${place}`,
    upToDate: 'up to date',
    behind: (count: string) => `${count} not learned yet`,
    without: (count: number, shown: string) =>
      `without the ${plural(count, 'judged answer', `${shown} judged answers`)} since`,
    notLearned: (count: number, shown: string) =>
      `learning is stopped; ${shown} judged ${plural(count, 'answer is', 'answers are')} not learned`,
    freshness: 'Feedback is learned after',
    freshnessHint: 'From a rating to the first answer that has learned it.',
    quantiles: (half: string, most: string) => `half within ${half}, 95 % within ${most}`,
    rate: 'Feedback per minute',
    total: (count: string) => `${count} in total`,
    setAside: (count: number, shown: string, reason: string) =>
      `${shown} ${plural(count, 'version was', 'versions were')} set aside: ${reason}`,
  },
  alarms: {
    title: 'Alarms',
    none: 'No alarm so far.',
    unknown: 'Not known: the alarms could not be read.',
    loss: 'Errors became more frequent',
    features: 'The inputs changed',
    classes: (names: string) => `Missed more often: ${names}`,
    since: (since: string, at: string) => `since about ${since} · noticed ${at}`,
    rates: (before: string, after: string) => `wrong answers: ${before} → ${after}`,
    ratesOf: (rates: string, wrong: string, of: string) => `${rates} (${wrong} of ${of})`,
    count: (count: number, shown: string) => `${shown} ${plural(count, 'alarm', 'alarms')}`,
    details: 'Details',
    table: 'Alarms of this change',
    what: 'What changed',
    sinceColumn: 'Since about judged answer',
    detected: 'Noticed at judged answer',
    before: 'Before',
    after: 'After',
    kinds: {
      loss: 'errors became more frequent',
      features: 'the inputs changed',
      class: (name: string) => `“${name}” was missed more often`,
    },
    older: (count: number, shown: string) => `${shown} earlier ${plural(count, 'change', 'changes')}`,
  },
  versions: {
    title: 'Versions',
    list: 'List of versions',
    live: 'live',
    labels: 'Labels',
    labelled: (label: string, version: string) => `${label} → ${version}`,
    newer: 'newer',
    none: 'No version has been published yet.',
    unknown: 'Not known: the versions could not be read.',
    count: (count: number, shown: string) => `${shown} ${plural(count, 'is', 'are')} kept.`,
    note: 'Give one a label to keep it for good and to call it by name.',
    learnedUntil: (place: string) => `learned up to ${place}`,
    learnedNothing: 'has learned nothing yet',
    more: 'Show older versions',
    actions: (version: string) => `Actions for version ${version}`,
    rollBack: (version: string) => `Roll back to version ${version}`,
    goForward: (version: string) => `Go forward to version ${version}`,
    compare: 'What changed since the version before',
    compareLive: 'What changed between this and the live version',
    label: 'Label…',
    unlabel: (label: string) => `Remove the label ${label}`,
    labelOf: (version: string) => `Label for version ${version}`,
    set: 'Set',
    metrics: {
      events: 'events learned',
      rated: 'answers judged',
      right: 'answers right',
      drift_alarms: 'alarms',
    } as Record<string, string>,
  },
  actions: {
    rollBack: (version: string) => `Roll back to version ${version}`,
    goForward: (version: string) => `Go forward to version ${version}`,
    freeze: 'Stop learning',
    changed: 'What changed?',
    rollBackTitle: (version: string) => `Roll back to version ${version}?`,
    rollBackText: (version: string) => [
      `Version ${version} answers everybody at once, instead of the present one.`,
      'Nothing is deleted. What was learned since stays in the log.',
    ],
    made: (at: string) => `Made ${at}.`,
    rightBefore: (count: string, share: string) =>
      `Of the last ${count} ${plural(count, 'answer', 'answers')} judged before that, ${share} ${plural(count, 'was', 'were')} right.`,
    errorBefore: (count: string, error: string) =>
      `The mean error of the last ${count} ${plural(count, 'answer', 'answers')} judged before that was ${error}.`,
    rightBeforeFall: (count: string, share: string) =>
      `Before the fall, ${share} of ${count} judged answers were right.`,
    errorBeforeRise: (count: string, error: string) =>
      `Before the errors grew, the mean error of ${count} judged answers was ${error}.`,
    rollBackStop: 'Also stop learning, so that it stays',
    rollBackStopNote: 'Otherwise it answers only until the next rating is learned.',
    rollBackReason: (version: string) => `rolled back to version ${version}`,
    rollBackAction: 'Roll back',
    goForwardTitle: (version: string) => `Go forward to version ${version}?`,
    goForwardText: (version: string) => [
      `Version ${version} is newer than the one that answers now. It was rolled back, or was not live yet.`,
      'It answers everybody at once.',
    ],
    goForwardAction: 'Go forward',
    freezeTitle: 'Stop learning?',
    freezeText: ['The model goes on answering and learns nothing until you resume. Feedback is kept and learned then.'],
    freezeAction: 'Stop',
    rolledBack: (version: string) => `Version ${version} answers now.`,
    rolledBackStopped: (version: string) => `Version ${version} answers now. Learning is stopped.`,
    frozen: 'Learning is stopped.',
    resumeTitle: 'Resume learning?',
    resumeText: (version: string) => [
      `Version ${version} answers until the next rating is learned. Then the newest version answers again, with everything that it has learned, also what led to the roll back.`,
      'If that was wrong, take it back first: the ratings of a visitor are on the page Inbox.',
    ],
  },
  operate: {
    title: 'Operator controls',
    guardTitle: 'The guard rolled back the live version',
    guardText: (version: string, at: string) => `Version ${version} has been answering since ${at}.`,
    decide: (since: string) => `Learning is stopped until you decide about the feedback since ${since}.`,
    drop: 'Drop this feedback',
    dropTitle: 'Drop this feedback?',
    dropText: (since: string) => [
      `All feedback since ${since} is taken back and never learned.`,
      'Learning is then resumed.',
    ],
    keep: 'Learn it anyway',
    keepTitle: 'Learn this feedback?',
    keepText: (since: string) => [`All feedback since ${since} is learned, and the newest version goes live again.`],
    frozen: (at: string, reason: string) => (reason ? `Stopped since ${at}: ${reason}.` : `Stopped since ${at}.`),
    frozenNote: 'Feedback is kept, and learned once you resume.',
    resume: 'Resume learning',
    reason: 'Stop learning. Why? (optional)',
    freeze: 'Stop',
    past: 'Past quarantines',
    columns: {
      since: 'Feedback since',
      reason: 'Reason',
      outcome: 'Outcome',
      ended: 'Ended',
    },
    outcomes: { learned: 'learned', dropped: 'dropped' },
  },
  changes: {
    title: 'What changed between two versions',
    lead: 'The newest questions that people asked, answered by both versions.',
    from: 'From version',
    to: 'to version',
    hourBefore: 'an hour before',
    oldestKept: (version: string) =>
      `No version is kept from an hour before. Compared with version ${version}, the one just before.`,
    compare: 'Compare',
    comparing: 'Both versions are answering…',
    summary: (changed: number, shown: string, of: string) =>
      changed === 0
        ? plural(of, 'The only question gets the same answer.', `All ${of} questions get the same answer.`)
        : `${shown} of ${of} ${plural(of, 'question', 'questions')} ${plural(changed, 'gets', 'get')} another answer.`,
    none: 'No question was recorded yet.',
    between: (since: string, version: string) => `Version ${since} → ${version}`,
    better: (count: number, shown: string) =>
      `${shown} ${plural(count, 'is', 'are')} now what the newest rating calls right`,
    worse: (count: number, shown: string) =>
      `${shown} ${plural(count, 'was', 'were')}, and ${plural(count, 'is', 'are')} not any more`,
    unwanted: (count: number, shown: string) => `${shown} got a 👎, and ${plural(count, 'is', 'are')} no longer given`,
    unknown: (count: string) => `${count} without a rating that decides`,
    ofTheFall: (since: string) =>
      `The ratings since ${since} count here too. If they are what is wrong, “right” means little: compare the answers themselves.`,
    table: 'Changed answers',
    question: 'Question',
    before: (version: string) => `Version ${version}`,
    said: 'What was said',
    noAnswer: 'no answer',
    isBetter: 'right now',
    isWorse: 'right before',
    thumbUp: '👍 for the answer then',
    thumbDown: '👎 for the answer then',
    label: (label: string) => `right: ${label}`,
    notRated: 'not rated',
    asked: (count: string) => plural(count, 'asked once', `asked ${count} times`),
    more: (count: string) => `Show all ${count}`,
  },
  members: {
    title: 'Members',
    note: 'Models that learn beside each other. Each answers before it learns; “vote” is all of them together. A member that rests is far behind and learns little.',
    table: 'Table of members',
    columns: {
      name: 'Member',
      accuracy: 'Accuracy',
      recent: 'Last 100 or so',
      vote: 'Share of the vote',
      state: 'State',
    },
    served: 'answers',
    rests: 'rests',
  },
  refused: {
    title: 'Refused feedback',
    note: (count: number, shown: string) =>
      plural(
        count,
        'One event could not be learned. Learning went on without it.',
        `${shown} events could not be learned. Learning went on without them.`,
      ),
    table: 'Table of refused feedback',
    columns: { count: 'Events', reason: 'Reason', offsets: 'Event numbers' },
    offsets: (first: string, last: string) => `${first} to ${last}`,
  },
  rejected: {
    title: 'Rejected snapshots',
    note: 'The gate did not let these versions go live. The version before went on answering, and learning went on.',
    table: 'Table of rejected snapshots',
    columns: { until: 'Learned until', reason: 'Reason', times: 'Times', first: 'First' },
  },
  encoder: {
    title: 'Text encoder',
    original: 'The original encoder is in use.',
    tuned: (name: string) => `An encoder tuned on corrections is in use: ${name}.`,
    untried: 'No tuning has been tried yet.',
    last: (at: string) => `Last tuning, ${at}:`,
    result: (before: string, count: string, after: string) =>
      `${before} of ${count} taught questions right before, ${after} after;`,
    adopted: 'better, so it was adopted.',
    kept: 'not clearly better, so nothing changed.',
    ended: 'it ended before it could be judged.',
  },
  needs: 'Rolling back, stopping to learn, labels and refused feedback',
};
