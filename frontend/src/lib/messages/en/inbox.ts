/* The inbox of those who look after a model. */

import type { Matter } from '../../inbox/matter';

const items = (count: number) => (count === 1 ? '1 message' : `${count} messages`);
const examples = (count: number) => (count === 1 ? '1 example' : `${count} examples`);

const COUNTED = {
  correction: ['correction', 'corrections'],
  other: ['other correction', 'other corrections'],
  thumb_down: ['thumb down', 'thumbs down'],
  thumb_up: ['thumb up', 'thumbs up'],
} as const;
type Counted = keyof typeof COUNTED;
const count = (kind: Counted, count: number) => `${count} ${COUNTED[kind][count === 1 ? 0 : 1]}`;
const is = (count: number) => (count === 1 ? 'is' : 'are');

export const inbox = {
  title: 'Inbox',
  lead: 'What people said about the replies. One decision counts for everybody who asked the same.',
  waiting: (groups: number) => (groups === 1 ? '1 waiting' : `${groups} waiting`),
  badge: (groups: number) => (groups === 1 ? 'Inbox, 1 waiting' : `Inbox, ${groups} waiting`),
  progress: (done: number, all: number) => `${done} of ${all} done`,
  open: 'Open',
  done: 'Done',
  views: 'Show',
  filters: 'Filter',
  filtersSet: (count: number) => `(${count} set)`,
  filter: 'Assigned to',
  anybody: 'All',
  me: 'Me',
  nobody: 'Nobody',
  sort: 'Order',
  newest: 'Newest first',
  largest: 'Largest first',
  search: 'Search the inbox',
  searchShort: 'Search',
  only: 'With',
  onlys: {
    all: 'All messages',
    waiting: 'Waiting',
    thumb_down: 'Thumbs down',
    new_reply: 'New replies',
  },
  notShown: (groups: number) => (groups === 1 ? '1 more group is not shown.' : `${groups} more groups are not shown.`),
  groups: 'Groups',
  back: 'All groups',
  empty: {
    title: 'All done',
    noneFor: (model: string) => `Nothing left in ${model}`,
    waitFor: (groups: number, model: string) =>
      groups === 1 ? `1 group waits for ${model}.` : `${groups} groups wait for ${model}.`,
    switchTo: (model: string) => `Show ${model}`,
    text: 'When somebody rates a reply as wrong or suggests a better one, it appears here. What you say yourself while you may decide here is learned at once, and is not listed.',
    filtered: 'Nothing in the inbox fits.',
    unfilter: 'Show everything',
    nothingDone: 'Nothing was decided yet.',
  },
  items,
  examples,
  modelWaiting: (model: string, groups: number) => `${model} (${groups} waiting)`,
  groupGone: 'This group is not open any more.',
  judged: (answer: string, isRight: boolean) => (isRight ? `“${answer}” was right` : `“${answer}” was wrong`),
  selectAll: 'Select all',
  selectNone: 'Select none',
  times: (count: number) => (count === 1 ? 'asked once' : `${count} times`),
  alsoAsked: 'Also asked as',
  noQuestion: 'Question no longer stored',
  answered: 'Reply that was given',
  answeredOf: (place: number, all: number) => `Reply that was given (${place} of ${all})`,
  onlyThese: 'Only these',
  onlyTheseOf: (reply: string) => `Select only what was said about: ${reply}`,
  suggestions: (count: number) => `Which of the ${count} suggested replies is right?`,
  suggested: (count: number) => (count === 1 ? 'suggested once' : `suggested ${count} times`),
  inRepertoire: 'the bot has this reply already',
  noAnswer: 'There was no reply.',
  said: 'What people said',
  select: (what: string) => `Include: ${what}`,
  selected: (count: number, all: number) => `${count} of ${all} selected`,
  kinds: {
    thumb_down: 'This reply is wrong.',
    thumb_up: 'This reply is right.',
    label: 'An example of this name.',
    correction: 'It should have been this reply:',
    new_reply: 'It should have been this new reply:',
  },
  states: {
    held: 'waiting',
    accepted: 'being learned',
    learned: 'learned',
    refused: 'not learned',
    rejected: 'rejected',
    retracted: 'un-learned',
  },
  stateHints: {
    held: 'The bot learns this only after you approve it.',
    accepted: 'The bot learns this now. Reject un-learns it.',
    learned: 'The bot has learned this already. Reject un-learns it.',
    refused: 'The bot could not learn this.',
    rejected: 'The bot does not learn this.',
    retracted: 'The bot has un-learned this.',
  },
  holdsExample: 'It is about one of your example questions, so it waits for you.',
  holds: {
    review: 'Suggestions of visitors are checked first.',
    influence: 'This person has said a lot already.',
    quarantine: 'Others disagree with most of what this person says.',
  },
  actions: {
    approve: 'Approve',
    agree: (isOne: boolean): string => (isOne ? 'Agree: it was wrong' : 'Agree: they were wrong'),
    disagree: (isOne: boolean): string => (isOne ? 'No, the reply was right' : 'No, the replies were right'),
    isRight: 'Agree: it was right',
    useReply: 'Use this reply',
    keepReply: 'Keep this reply',
    merge: 'Use another reply',
    reply: 'Write a reply',
    reject: 'Reject',
    more: 'Decide',
  },
  explain: {
    merge: 'Choose a reply that the bot has already.',
    reply: 'Write the right reply once, for all these questions.',
  },
  approval: {
    one: (reply: string, questions: number) =>
      `The bot learns “${reply}” for ${questions === 1 ? 'this question' : `${questions} questions`}.`,
    choose: (replies: number) =>
      `Choose one of the ${replies} suggestions above. It is taught for all selected questions.`,
    keptReply: (reply: string) => `The bot has learned “${reply}” already, and keeps it.`,
    examples: (label: string, count: number) => `The bot learns ${examples(count)} of “${label}”.`,
    right: (questions: number) =>
      `The bot learns that this reply is right for ${questions === 1 ? 'this question' : `${questions} questions`}.`,
    wrong: (questions: number) =>
      `The bot learns that this reply is wrong for ${questions === 1 ? 'this question' : `${questions} questions`}.`,
    keptWrong: (questions: number) =>
      `The bot goes on avoiding this reply for ${questions === 1 ? 'this question' : `${questions} questions`}, as it has learned.`,
    kept: 'The bot keeps what it has learned.',
  },
  rejection: {
    wrong: {
      notLearned: (thumbs: number): string =>
        thumbs === 1 ? 'The thumb down is not learned.' : 'The thumbs down are not learned.',
      unlearned: (thumbs: number): string =>
        thumbs === 1 ? 'The thumb down is un-learned.' : 'The thumbs down are un-learned.',
    },
    other: {
      notLearned: 'Nothing of it is learned.',
      unlearned: 'What was learned from it is un-learned.',
    },
    examples: 'None of them is learned.',
  },
  /** What becomes of each kind of message of a group. */
  counted: {
    learned: {
      correction: (corrections: number, reply: string, questions: number) =>
        `${count('correction', corrections)} ${is(corrections)} learned: “${reply}” for ${questions === 1 ? 'this question' : `${questions} questions`}.`,
      thumb: (thumbs: number, isUp: boolean, replies: number) =>
        `${count(isUp ? 'thumb_up' : 'thumb_down', thumbs)} ${is(thumbs)} learned: the given ${replies === 1 ? 'reply is' : 'replies are'} ${isUp ? 'right' : 'wrong'}.`,
    },
    stays: (kind: Counted, known: number) =>
      `${count(kind, known)} ${known === 1 ? 'was' : 'were'} learned already and ${known === 1 ? 'stays' : 'stay'}.`,
    notLearned: (kind: Counted, held: number) => `${count(kind, held)} ${is(held)} not learned.`,
    unlearned: (kind: Counted, known: number) => `${count(kind, known)} ${is(known)} un-learned.`,
  },
  askedAs: (question: string) => `Asked: ${question}`,
  mergeTitle: 'Which reply is right?',
  likely: 'Likely',
  found: 'Found',
  givenBefore: 'was given',
  mergeSearch: 'Search replies',
  mergeNone: 'No replies match.',
  replyTitle: 'What is the right reply?',
  replySend: (questions: number) => (questions === 1 ? 'Teach this reply' : `Teach it for ${questions} questions`),
  replyStart: 'Start from a suggestion',
  rejectTitle: 'Why? The people who wrote it can read this. (optional)',
  rejectSend: (what: string) => `Reject ${what}`,
  ofExamples: {
    lead: 'Examples that wait to be checked. Decide once for all of one name.',
    empty: {
      text: 'When a visitor teaches a new name, it appears here. What you teach yourself while you may decide here is learned at once, and is not listed.',
    },
    said: 'Examples of this name',
    squares: 'As the model sees them: 8 by 8 squares. It keeps no other picture of a drawing.',
    rejectTitle: 'Why? The people who gave them can read this. (optional)',
    gone: 'No longer stored',
    guessed: (guess: string) => `The bot had guessed “${guess}”.`,
  },
  rejectAllOf: (count: number) => `Reject all ${count} messages of this person`,
  cancel: 'Cancel',
  assign: 'Assign',
  assignedTo: (who: string) => `Assigned to ${who}`,
  unassigned: 'Not assigned',
  assignToMe: 'Assign to me',
  you: 'you',
  toasts: {
    /** title: the question or the name that was decided about. */
    approve: (count: number, matter: Matter, title: string) =>
      ({
        wrong: `Agreed, the reply was wrong: “${title}”`,
        right: `Agreed, the reply was right: “${title}”`,
        reply: `Reply used: “${title}” (${items(count)})`,
        examples: `Approved: “${title}” (${examples(count)})`,
        mixed: `Approved: “${title}” (${items(count)})`,
      })[matter],
    merge: (count: number, _: Matter, title: string) => `Reply chosen: “${title}” (${items(count)})`,
    reply: (_count: number, _: Matter, title: string) => `Reply taught: “${title}”`,
    reject: (count: number, matter: Matter, title: string) =>
      matter === 'wrong'
        ? `The reply was right, and does not count as wrong: “${title}”`
        : `Rejected: “${title}” (${matter === 'examples' ? examples(count) : items(count)})`,
    rejectAll: (count: number, who: string) => `Rejected: ${items(count)} of ${who}`,
    dismiss: (count: number) => (count === 1 ? '1 question dismissed' : `${count} questions dismissed`),
    undone: 'Taken back. It is in the inbox again.',
    additionUndone: 'Taken back. The bot does not use it any more.',
    gone: 'It was withdrawn meanwhile.',
  },
  already: {
    approve: (who: string) => `Nothing changed: ${who} has approved this already.`,
    merge: (who: string) => `Nothing changed: ${who} has chosen another reply already.`,
    reply: (who: string) => `Nothing changed: ${who} has written a reply already.`,
    reject: (who: string) => `Nothing changed: ${who} has rejected this already.`,
    dismiss: (who: string) => `Nothing changed: ${who} has dismissed this already.`,
  },
  decided: {
    approve: 'approved',
    merge: 'replaced by another reply',
    reply: 'answered',
    reject: 'rejected',
    dismiss: 'dismissed',
    add: 'added',
  },
  /** Of thumbs down. */
  judgedBy: { approve: 'thumb down confirmed', reject: 'thumb down rejected' },
  added: (replies: number, questions: number) =>
    [
      ...(replies > 0 ? [replies === 1 ? '1 new reply' : `${replies} new replies`] : []),
      ...(questions > 0 ? [questions === 1 ? '1 example question' : `${questions} example questions`] : []),
    ].join(', '),
  decidedBy: (what: string, who: string) => `${what} by ${who}`,
  undo: 'Undo',
  dismiss: 'Close this note',
  undoOf: (what: string) => `Undo: ${what}`,
  nothingToUndo: 'There is nothing to undo.',
  next: (question: string, left: number) => `${left} left. Next: ${question}`,
  none: 'Nothing left.',
  keys: {
    button: 'Keyboard',
    title: 'Keyboard',
    next: 'next group',
    previous: 'previous group',
    approve: 'agree, or use the suggested reply',
    merge: 'use another reply',
    reject: 'disagree, or reject',
    reply: 'write a reply',
    mine: 'assign to me',
    undo: 'undo the last decision',
    help: 'this list',
    send: 'send a reason or a reply that you write',
    close: 'Close',
  },
  needs: 'The inbox is for those who look after the bot. Sign in with a key that may curate.',
  noModel: 'There is no such model here.',
  callers: {
    visitor: (name: string) => `Visitor ${name}`,
    key: (name: string) => name,
    user: (name: string) => name,
    local: 'This machine',
    admin: 'Admin',
    unknown: 'Unknown',
  },
};
