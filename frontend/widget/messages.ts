/* The sentences of the widget. Where the chat page says the same, it is in the same words. */

const en = {
  title: 'Chat',
  greeting: 'Ask me anything',
  rate: 'Your ratings change my answers within moments.',
  review: 'You can rate my replies and suggest better ones. A person checks a suggestion before I use it.',
  open: 'Open the chat',
  close: 'Close the chat',
  log: 'Conversation',
  you: 'You asked: ',
  reply: 'Reply',
  label: 'Your question',
  ask: 'Ask',
  waiting: 'Waiting for the reply',
  unknown: "I don't know that yet.",
  feedback: 'Rate this reply',
  good: 'Good reply',
  wrong: 'Wrong reply',
  undo: 'Undo',
  saving: 'Saving…',
  saved: 'Saved',
  learned: 'Learned',
  held: 'Saved. It is checked before it is learned.',
  notLearned: 'Not learned',
  later: 'It is kept and will be learned once learning continues.',
  undone: 'Taken back',
  taught: 'You taught',
  suggested: 'You suggested',
  correct: 'What should I have said?',
  choose: 'Perhaps this helps:',
  teach: 'Teach',
  suggest: 'Suggest',
  reviewed: 'New replies are checked by a person before they are used.',
  retry: 'Try again',
  unreachable: 'The chat cannot be reached now. Try again in a moment.',
  notAllowed: 'The chat is not available on this page.',
  tooLong: (given: number, limit: number) => `Too long: ${given} of ${limit} characters.`,
  tooMany: (seconds: number) =>
    seconds > 0
      ? `Too many requests. Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`
      : 'Too many requests. Wait a moment and try again.',
  busy: 'The service is busy or starting. Try again in a moment.',
  invalid: 'This could not be accepted. Check what you entered.',
  failed: 'Something went wrong on the server. Try again.',
};

export type Messages = typeof en;

const de: Messages = {
  title: 'Chat',
  greeting: 'Fragen Sie mich etwas',
  rate: 'Ihre Bewertungen ändern meine Antworten sofort.',
  review: 'Sie können meine Antworten bewerten und bessere vorschlagen. Einen Vorschlag prüft erst ein Mensch.',
  open: 'Chat öffnen',
  close: 'Chat schließen',
  log: 'Gespräch',
  you: 'Sie haben gefragt: ',
  reply: 'Antwort',
  label: 'Ihre Frage',
  ask: 'Fragen',
  waiting: 'Die Antwort kommt gleich',
  unknown: 'Das weiß ich noch nicht.',
  feedback: 'Antwort bewerten',
  good: 'Gute Antwort',
  wrong: 'Falsche Antwort',
  undo: 'Rückgängig',
  saving: 'Wird gespeichert …',
  saved: 'Gespeichert',
  learned: 'Gelernt',
  held: 'Gespeichert. Es wird geprüft, bevor es gelernt wird.',
  notLearned: 'Nicht gelernt',
  later: 'Es ist gespeichert und wird gelernt, sobald das Lernen weitergeht.',
  undone: 'Zurückgenommen',
  taught: 'Sie haben mir beigebracht',
  suggested: 'Ihr Vorschlag',
  correct: 'Wie wäre die Antwort richtig?',
  choose: 'Vielleicht hilft das:',
  teach: 'Beibringen',
  suggest: 'Vorschlagen',
  reviewed: 'Neue Antworten prüft ein Mensch, bevor sie verwendet werden.',
  retry: 'Noch einmal versuchen',
  unreachable: 'Der Chat ist gerade nicht erreichbar. Versuchen Sie es gleich noch einmal.',
  notAllowed: 'Der Chat ist auf dieser Seite nicht verfügbar.',
  tooLong: (given, limit) => `Zu lang: ${given} von ${limit} Zeichen.`,
  tooMany: (seconds) =>
    seconds > 0
      ? `Zu viele Anfragen. Versuchen Sie es in ${seconds} ${seconds === 1 ? 'Sekunde' : 'Sekunden'} wieder.`
      : 'Zu viele Anfragen. Warten Sie einen Moment.',
  busy: 'Der Dienst ist ausgelastet oder startet gerade. Versuchen Sie es gleich noch einmal.',
  invalid: 'Das konnte nicht angenommen werden. Prüfen Sie Ihre Eingabe.',
  failed: 'Auf dem Server ist etwas schiefgegangen. Versuchen Sie es noch einmal.',
};

export const MESSAGES = { en, de };
export type Language = keyof typeof MESSAGES;

/** The first language that the widget has. tags: such as "de-AT", the most wanted first. */
export function chooseLanguage(tags: readonly (string | undefined)[]): Language {
  const names = tags.map((tag) => (tag ?? '').toLowerCase().split('-')[0] ?? '');
  return names.find((name): name is Language => Object.hasOwn(MESSAGES, name)) ?? 'en';
}
