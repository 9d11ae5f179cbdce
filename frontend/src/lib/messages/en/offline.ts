/* The page without the service, and what waits in this browser. */

const plural = (count: number, one: string, many: string) => (count === 1 ? one : many);

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
};
