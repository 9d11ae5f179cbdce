/* Sentences that several pages share. */

import { plural } from '../plural';

export const ui = {
  pages: {
    label: 'Pages',
    chat: 'Chat',
    repertoire: 'Repertoire',
    inbox: 'Inbox',
    draw: 'Draw',
    learning: 'Learning',
    reports: 'Reports',
    cluster: 'Cluster',
    routes: 'Routes',
    shared: 'Shared conversation',
  },
  skip: 'Skip to content',
  loading: 'Loading…',
  justNow: 'just now',
  notLoaded: 'This page could not be loaded. Check your connection.',
  reload: 'Reload',
  cancel: 'Cancel',
  close: 'Close',
  save: 'Save',
  control: 'Ctrl',
  enter: 'Enter',
  sends: 'sends',
  delete: 'Delete',
  undo: 'Undo',
  refresh: 'Refresh',
  copy: 'Copy',
  copied: 'Copied',
  copyFailed: 'Your browser did not allow copying.',
  more: 'More actions',
  dismiss: 'Dismiss',
  notifications: 'Notifications',
  explain: (what: string) => `What does “${what}” mean?`,
  settings: {
    label: 'Settings',
    theme: 'Theme',
    system: 'As the device',
    light: 'Light',
    dark: 'Dark',
    language: 'Language',
    details: 'Show model details',
    offlineAnswers: 'Answers without a connection',
    keys: 'Keyboard shortcuts',
  },
  connection: {
    lost: 'No connection to the server. This page reconnects by itself.',
    ended: 'You were signed out. Sign in again to continue.',
  },
  counts: {
    replies: (count: number, shown: string) => `${shown} ${plural(count, 'reply', 'replies')}`,
    questions: (count: number, shown: string) => `${shown} ${plural(count, 'question', 'questions')}`,
  },
  progress: {
    saving: 'saving…',
    saved: 'saved',
    waiting: 'Kept on this device until the connection is back.',
    notSaved: (problem: string) => `not saved: ${problem}`,
    held: 'Thank you. It is checked before it is learned.',
    learned: (version: string) => `learned in version ${version}`,
    learnedIn: (version: string, time: string) => `learned in version ${version}, ${time} later`,
    notLearned: (reason: string) => `not learned: ${reason}`,
    rejected: 'it was checked and not accepted',
    otherReply: 'Another reply was written instead.',
    expired: 'nobody else agreed in time',
    noReason: 'no reason was given',
    undoing: 'taking it back…',
    undone: 'taken back',
    unlearned: (version: string) => `un-learned in version ${version}`,
    noReply: 'no reply',
    noAnswer: 'no answer',
    now: (answer: string) => `asked again now: ${answer}`,
    still: (answer: string) => `asked again now: still ${answer}`,
    changed: (before: string, now: string) => `asked again now: before ${before}, now ${now}`,
  },
  /** Why saved feedback is not learned now. */
  hold: {
    frozen: (reason: string) =>
      reason === ''
        ? 'kept, and learned once learning continues'
        : `kept, and learned once learning continues (stopped: ${reason})`,
    paused: 'kept, and learned once the learner is back',
  },
  today: 'Today',
  yesterday: 'Yesterday',
  model: 'Model',
  /** Why the service did something. Each is the end of a sentence, without its full stop. */
  causes: {
    guard: (since: string) => `the guard saw worse answers since event ${since}`,
    lossRose: (since: string) => `more answers were wrong since event ${since} than before`,
    lossRoseBy: (since: string, before: string, after: string, window: string) =>
      `${after} of the last ${window} answers were wrong; up to event ${since} it was ${before}`,
    processEnded: (status: string, seconds: string) => `it ended with status ${status}; next start in ${seconds} s`,
    processNotStarted: (error: string, seconds: string) => `it cannot be started: ${error}; next start in ${seconds} s`,
    logEndsEarly: (head: string, until: string) =>
      `the log ends at event ${head}, but the model had learned until ${until}: the database is older than the versions, or another one`,
    logHasOtherEvents: (until: string) =>
      `the log has other events, at or before ${until}, than the model had learned: the database is older than the versions, or another one`,
  },
  banner: {
    paused: 'Learning is paused. The model keeps answering, and what you teach is kept.',
    frozen: (reason: string) =>
      reason === ''
        ? 'Learning is stopped. The model keeps answering.'
        : `Learning is stopped: ${reason}. The model keeps answering.`,
    relearning: 'The model is learning everything once more. Until then its answers may be worse.',
  },
  missing: {
    title: 'Not available here',
    what: (model: string) => `This page needs ${model}, and this service has none.`,
    how: 'To add one, put these lines into online.toml and start the service again:',
    ask: 'Ask the people who run this service.',
    noModel: (name: string, known: string) => `There is no model called “${name}”. This service has: ${known}.`,
  },
  problems: {
    noAnswer: 'The server does not answer. Try again in a moment.',
    incomplete: 'The answer was cut off. Try again.',
    tooLong: (given: string, limit: string) => `Too long: ${given} of ${limit} characters.`,
    notSignedIn: 'Sign in first to do this.',
    notAllowed: 'You may not do this.',
    notFound: 'This no longer exists.',
    changed: 'Somebody else has changed this meanwhile. Reload and try again.',
    tooLarge: 'This is too large to send.',
    tooMany: 'Too many requests. Wait a moment and try again.',
    tooManyUntil: (seconds: string) =>
      `Too many requests. Try again in ${seconds} ${plural(seconds, 'second', 'seconds')}.`,
    invalid: 'This could not be accepted. Check what you entered.',
    busy: 'The service is busy or starting. Try again in a moment.',
    full: 'The service has no space left. Tell the people who run it.',
    failed: 'Something went wrong on the server. Try again.',
  },
};
