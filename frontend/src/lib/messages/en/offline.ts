/* The page without the service, and what waits in this browser. */

import { plural } from '../plural';

export const offline = {
  lost: 'No connection to the server.',
  answers: (version: string) => `Version ${version} answers on this device.`,
  simpler: 'Its answers are simpler than those of the server.',
  noAnswers: 'There are no answers until it is back.',
  keeps: 'What you teach is kept, and sent then.',
  needsTeaching: 'Only those who may teach can rate or name what it answers.',
  waits: (count: number, shown: string) =>
    `${shown} ${plural(count, 'entry waits', 'entries wait')} to be sent.`,
  namesWait: (count: number, shown: string) =>
    `${shown} ${plural(count, 'name waits', 'names wait')} to be sent.`,
  sending: (count: number, shown: string) =>
    `Sending ${shown} ${plural(count, 'entry', 'entries')} …`,
  sent: (parts: string) => `Sent: ${parts}.`,
  learned: (shown: string) => `${shown} learned`,
  held: (shown: string) => `${shown} to be checked first`,
  refusedOf: (shown: string) => `${shown} not learned`,
  retracted: (shown: string) => `${shown} taken back`,
  refused: (count: number, shown: string) =>
    `${shown} ${plural(count, 'entry was', 'entries were')} not accepted.`,
  ofOthers: (count: number, shown: string) =>
    `${shown} ${plural(count, 'entry', 'entries')} of another account in this browser ${plural(count, 'waits', 'wait')} until that account signs in.`,
  deleteOfOthers: 'Delete what waits of another account',
  deleteTitle: 'Delete the entries of another account?',
  deleteText: (count: number, shown: string) =>
    `${shown} ${plural(count, 'entry was', 'entries were')} not sent yet and ${plural(count, 'is', 'are')} lost then: nobody learns from ${plural(count, 'it', 'them')}. What else this browser keeps for that account is deleted as well.`,
  deleteAction: (count: number, shown: string) =>
    `Delete ${shown} ${plural(count, 'entry', 'entries')}`,
  deleteFailed: 'This browser did not delete the entries. Try again.',
  noRoom: 'This browser has no room to keep the newest version.',
  tooLarge: 'The newest version is too large to keep in this browser.',
  show: 'Show what waits',
  hide: 'Hide what waits',
  list: 'What waits',
  kinds: {
    name: (title: string) => `Name “${title}”`,
    good: (title: string) => `Good reply: “${title}”`,
    wrong: (title: string) => `Wrong reply: “${title}”`,
    correction: (title: string) => `Better reply: “${title}”`,
    retraction: (title: string) => `Take back “${title}”`,
  },
  notAccepted: (reason: string) => `Not accepted: ${reason}`,
  remove: (what: string) => `Remove: ${what}`,
  edit: (what: string) => `Change and send again: ${what}`,
  newText: 'New text',
  send: 'Send',
  signOutTitle: 'Sign out with unsent entries?',
  signOutText: (count: number, shown: string) =>
    `${shown} ${plural(count, 'entry was', 'entries were')} not sent yet. Signing out deletes ${plural(count, 'it', 'them')} from this browser.`,
  signOutAction: 'Sign out and delete',
  better: {
    title: 'Answers without a connection',
    text: 'Without the server, this browser answers by comparing words. With a text encoder it finds the right reply to a question in other words, too.',
    switch: 'Read questions by their meaning on this device',
    size: (shown: string) => `Downloads ${shown} once.`,
    kept: (shown: string) => `${shown} stay in this browser until you switch it off or sign out.`,
    until: 'It stays in this browser until you switch it off or sign out.',
    downloading: (done: string, total: string) => `Downloading: ${done} of ${total}`,
    starting: 'Starting the encoder …',
    reading: (done: string, total: string) => `Reading the known questions: ${done} of ${total}`,
    ready: 'Ready. Without a connection, questions are read by their meaning.',
    removing: 'Deleting the encoder …',
    progress: 'Progress',
    offline: 'It can be downloaded when the connection is back.',
    again: 'Try again',
    problems: {
      lost: 'The connection was lost. The download goes on when it is back.',
      damaged: 'A file arrived damaged, and was deleted.',
      no_room: 'This browser has no room for it. Make room, or switch it off again.',
      not_allowed: 'You may not load the text encoder. Sign in, or ask the operator.',
      too_large: 'The text encoder is too large for this browser.',
      failed: 'The text encoder cannot be used in this browser now.',
    },
  },
};
