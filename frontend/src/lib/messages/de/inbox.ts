import type { Messages } from '..';

const items = (count: number) => (count === 1 ? '1 Nachricht' : `${count} Nachrichten`);
const examples = (count: number) => (count === 1 ? '1 Beispiel' : `${count} Beispiele`);

const COUNTED = {
  correction: ['Korrektur', 'Korrekturen'],
  other: ['andere Korrektur', 'andere Korrekturen'],
  thumb_down: ['Daumen runter', 'Daumen runter'],
  thumb_up: ['Daumen hoch', 'Daumen hoch'],
} as const;
const count = (kind: keyof typeof COUNTED, count: number) =>
  `${count} ${COUNTED[kind][count === 1 ? 0 : 1]}`;
const become = (count: number) => (count === 1 ? 'wird' : 'werden');

export const inbox: Messages['inbox'] = {
  title: 'Posteingang',
  lead: 'Was Menschen zu den Antworten gesagt haben. Eine Entscheidung gilt für alle, die dasselbe gefragt haben.',
  waiting: (groups) => (groups === 1 ? '1 offen' : `${groups} offen`),
  badge: (groups) => (groups === 1 ? 'Posteingang, 1 offen' : `Posteingang, ${groups} offen`),
  progress: (done, all) => `${done} von ${all} erledigt`,
  open: 'Offen',
  done: 'Erledigt',
  views: 'Anzeigen',
  filters: 'Filter',
  filtersSet: (count) => `(${count} gesetzt)`,
  filter: 'Zugewiesen an',
  anybody: 'Alle',
  me: 'Mich',
  nobody: 'Niemanden',
  sort: 'Reihenfolge',
  newest: 'Neueste zuerst',
  largest: 'Größte zuerst',
  search: 'Posteingang durchsuchen',
  searchShort: 'Suchen',
  only: 'Mit',
  onlys: {
    all: 'Alle Nachrichten',
    waiting: 'Wartend',
    thumb_down: 'Daumen runter',
    new_reply: 'Neue Antworten',
  },
  notShown: (groups) =>
    groups === 1
      ? '1 weitere Gruppe wird nicht gezeigt.'
      : `${groups} weitere Gruppen werden nicht gezeigt.`,
  groups: 'Gruppen',
  back: 'Alle Gruppen',
  empty: {
    title: 'Alles erledigt',
    noneFor: (model) => `Für ${model} ist nichts mehr offen`,
    waitFor: (groups, model) =>
      groups === 1
        ? `1 Gruppe ist noch für ${model} offen.`
        : `${groups} Gruppen sind noch für ${model} offen.`,
    switchTo: (model) => `${model} zeigen`,
    text: 'Sobald jemand eine Antwort als falsch bewertet oder eine bessere vorschlägt, erscheint das hier. Was Sie selbst sagen, während Sie hier entscheiden dürfen, wird sofort gelernt und steht nicht hier.',
    filtered: 'Im Posteingang passt nichts dazu.',
    unfilter: 'Alles zeigen',
    nothingDone: 'Noch wurde nichts entschieden.',
  },
  items,
  examples,
  modelWaiting: (model, groups) => `${model} (${groups} offen)`,
  groupGone: 'Diese Gruppe ist nicht mehr offen.',
  judged: (answer, isRight) => (isRight ? `„${answer}“ war richtig` : `„${answer}“ war falsch`),
  selectAll: 'Alle auswählen',
  selectNone: 'Keine auswählen',
  times: (count) => (count === 1 ? 'einmal gefragt' : `${count}-mal`),
  alsoAsked: 'Auch so gefragt',
  noQuestion: 'Die Frage ist nicht mehr gespeichert',
  answered: 'Gegebene Antwort',
  answeredOf: (place, all) => `Gegebene Antwort (${place} von ${all})`,
  onlyThese: 'Nur diese',
  onlyTheseOf: (reply) => `Nur auswählen, was hierzu gesagt wurde: ${reply}`,
  suggestions: (count) => `Welche der ${count} vorgeschlagenen Antworten ist richtig?`,
  suggested: (count) => (count === 1 ? 'einmal vorgeschlagen' : `${count}-mal vorgeschlagen`),
  inRepertoire: 'diese Antwort hat der Bot schon',
  noAnswer: 'Es gab keine Antwort.',
  said: 'Was gesagt wurde',
  select: (what) => `Einbeziehen: ${what}`,
  selected: (count, all) => `${count} von ${all} ausgewählt`,
  kinds: {
    thumb_down: 'Diese Antwort ist falsch.',
    thumb_up: 'Diese Antwort ist richtig.',
    label: 'Ein Beispiel für diesen Namen.',
    correction: 'Es hätte diese Antwort sein sollen:',
    new_reply: 'Es hätte diese neue Antwort sein sollen:',
  },
  states: {
    held: 'wartet',
    accepted: 'wird gelernt',
    learned: 'gelernt',
    refused: 'nicht gelernt',
    rejected: 'abgelehnt',
    retracted: 'wieder verlernt',
  },
  stateHints: {
    held: 'Der Bot lernt das erst, wenn Sie zustimmen.',
    accepted: 'Der Bot lernt das gerade. Ablehnen macht es rückgängig.',
    learned: 'Der Bot hat das schon gelernt. Ablehnen macht es rückgängig.',
    refused: 'Der Bot konnte das nicht lernen.',
    rejected: 'Der Bot lernt das nicht.',
    retracted: 'Der Bot hat das wieder verlernt.',
  },
  holdsExample: 'Es geht um eine Ihrer Beispielfragen, deshalb wartet es auf Sie.',
  holds: {
    review: 'Vorschläge von Besuchern werden zuerst geprüft.',
    influence: 'Diese Person hat schon viel gesagt.',
    quarantine: 'Andere widersprechen dem meisten, was diese Person sagt.',
  },
  actions: {
    approve: 'Zustimmen',
    agree: (isOne) => (isOne ? 'Stimmt, sie war falsch' : 'Stimmt, sie waren falsch'),
    disagree: (isOne) => (isOne ? 'Nein, sie war richtig' : 'Nein, sie waren richtig'),
    isRight: 'Stimmt, sie war richtig',
    useReply: 'Diese Antwort verwenden',
    keepReply: 'Diese Antwort behalten',
    merge: 'Andere Antwort',
    reply: 'Antwort schreiben',
    reject: 'Ablehnen',
    more: 'Entscheiden',
  },
  explain: {
    merge: 'Eine Antwort wählen, die der Bot schon hat.',
    reply: 'Die richtige Antwort einmal für alle diese Fragen schreiben.',
  },
  approval: {
    one: (reply, questions) =>
      `Der Bot lernt „${reply}“ für ${questions === 1 ? 'diese Frage' : `${questions} Fragen`}.`,
    choose: (replies) =>
      `Wählen Sie oben einen der ${replies} Vorschläge. Er wird für alle ausgewählten Fragen gelehrt.`,
    keptReply: (reply) => `Der Bot hat „${reply}“ schon gelernt und behält es.`,
    examples: (label, count) => `Der Bot lernt ${examples(count)} für „${label}“.`,
    right: (questions) =>
      `Der Bot lernt, dass diese Antwort für ${questions === 1 ? 'diese Frage' : `${questions} Fragen`} richtig ist.`,
    wrong: (questions) =>
      `Der Bot lernt, dass diese Antwort für ${questions === 1 ? 'diese Frage' : `${questions} Fragen`} falsch ist.`,
    keptWrong: (questions) =>
      `Der Bot meidet diese Antwort bei ${questions === 1 ? 'dieser Frage' : `${questions} Fragen`} weiter, wie er es gelernt hat.`,
    kept: 'Der Bot behält, was er gelernt hat.',
  },
  rejection: {
    wrong: {
      notLearned: (thumbs) =>
        thumbs === 1
          ? 'Der Daumen runter wird nicht gelernt.'
          : 'Die Daumen runter werden nicht gelernt.',
      unlearned: (thumbs) =>
        thumbs === 1
          ? 'Der Daumen runter wird wieder verlernt.'
          : 'Die Daumen runter werden wieder verlernt.',
    },
    other: {
      notLearned: 'Nichts davon wird gelernt.',
      unlearned: 'Was daraus gelernt wurde, wird wieder verlernt.',
    },
    examples: 'Keines davon wird gelernt.',
  },
  counted: {
    learned: {
      correction: (corrections, reply, questions) =>
        `${count('correction', corrections)} ${become(corrections)} gelernt: „${reply}“ für ${questions === 1 ? 'diese Frage' : `${questions} Fragen`}.`,
      thumb: (thumbs, isUp, replies) =>
        `${count(isUp ? 'thumb_up' : 'thumb_down', thumbs)} ${become(thumbs)} gelernt: Die ${replies === 1 ? 'gegebene Antwort ist' : 'gegebenen Antworten sind'} ${isUp ? 'richtig' : 'falsch'}.`,
    },
    stays: (kind, known) =>
      `${count(kind, known)} ${known === 1 ? 'ist' : 'sind'} schon gelernt und ${known === 1 ? 'bleibt' : 'bleiben'} es.`,
    notLearned: (kind, held) => `${count(kind, held)} ${become(held)} nicht gelernt.`,
    unlearned: (kind, known) => `${count(kind, known)} ${become(known)} wieder verlernt.`,
  },
  askedAs: (question) => `Gefragt: ${question}`,
  mergeTitle: 'Welche Antwort ist richtig?',
  likely: 'Wahrscheinlich',
  found: 'Gefunden',
  givenBefore: 'wurde gegeben',
  mergeSearch: 'Antworten suchen',
  mergeNone: 'Keine Antwort passt.',
  mergeUse: 'Diese Antwort verwenden',
  replyTitle: 'Was ist die richtige Antwort?',
  replySend: (questions) =>
    questions === 1 ? 'Diese Antwort lehren' : `Für ${questions} Fragen lehren`,
  replyStart: 'Mit einem Vorschlag beginnen',
  rejectTitle: 'Warum? Wer es geschrieben hat, kann das lesen. (freiwillig)',
  rejectSend: (what) => `${what} ablehnen`,
  ofExamples: {
    lead: 'Beispiele, die noch geprüft werden. Entscheiden Sie einmal für alle mit demselben Namen.',
    empty: {
      text: 'Sobald jemand einen neuen Namen lehrt, erscheint das hier. Was Sie selbst lehren, während Sie hier entscheiden dürfen, wird sofort gelernt und steht nicht hier.',
    },
    said: 'Beispiele für diesen Namen',
    squares:
      'So sieht das Modell sie: 8 mal 8 Felder. Ein anderes Bild einer Zeichnung behält es nicht.',
    rejectTitle: 'Warum? Wer die Beispiele gegeben hat, kann das lesen. (freiwillig)',
    gone: 'Nicht mehr gespeichert',
    guessed: (guess) => `Der Bot hatte „${guess}“ geraten.`,
  },
  rejectAllOf: (count) => `Alle ${count} Nachrichten dieser Person ablehnen`,
  cancel: 'Abbrechen',
  assign: 'Zuweisen',
  assignedTo: (who) => `Zugewiesen an ${who}`,
  unassigned: 'Nicht zugewiesen',
  assignToMe: 'Mir zuweisen',
  you: 'Sie',
  toasts: {
    approve: (count, matter, title) =>
      ({
        wrong: `Zugestimmt, die Antwort war falsch: „${title}“`,
        right: `Zugestimmt, die Antwort war richtig: „${title}“`,
        reply: `Antwort verwendet: „${title}“ (${items(count)})`,
        examples: `Zugestimmt: „${title}“ (${examples(count)})`,
        mixed: `Zugestimmt: „${title}“ (${items(count)})`,
      })[matter],
    merge: (count, _, title) => `Antwort gewählt: „${title}“ (${items(count)})`,
    reply: (_count, _, title) => `Antwort gelehrt: „${title}“`,
    reject: (count, matter, title) =>
      matter === 'wrong'
        ? `Die Antwort war richtig und zählt nicht als falsch: „${title}“`
        : `Abgelehnt: „${title}“ (${matter === 'examples' ? examples(count) : items(count)})`,
    rejectAll: (count, who) => `Abgelehnt: ${items(count)} von ${who}`,
    dismiss: (count) => (count === 1 ? '1 Frage verworfen' : `${count} Fragen verworfen`),
    undone: 'Zurückgenommen. Es ist wieder im Posteingang.',
    additionUndone: 'Zurückgenommen. Der Bot verwendet es nicht mehr.',
    gone: 'Es wurde inzwischen zurückgezogen.',
  },
  already: {
    approve: (who) => `Nichts geändert: ${who} hat schon zugestimmt.`,
    merge: (who) => `Nichts geändert: ${who} hat schon eine andere Antwort gewählt.`,
    reply: (who) => `Nichts geändert: ${who} hat schon eine Antwort geschrieben.`,
    reject: (who) => `Nichts geändert: ${who} hat das schon abgelehnt.`,
    dismiss: (who) => `Nichts geändert: ${who} hat das schon verworfen.`,
  },
  decided: {
    approve: 'zugestimmt',
    merge: 'durch eine andere Antwort ersetzt',
    reply: 'beantwortet',
    reject: 'abgelehnt',
    dismiss: 'verworfen',
    add: 'hinzugefügt',
  },
  judgedBy: { approve: 'Daumen runter bestätigt', reject: 'Daumen runter abgelehnt' },
  added: (replies, questions) =>
    [
      ...(replies > 0 ? [replies === 1 ? '1 neue Antwort' : `${replies} neue Antworten`] : []),
      ...(questions > 0
        ? [questions === 1 ? '1 Beispielfrage' : `${questions} Beispielfragen`]
        : []),
    ].join(', '),
  decidedBy: (what, who) => `${what} von ${who}`,
  undo: 'Rückgängig',
  dismiss: 'Diesen Hinweis schließen',
  undoOf: (what) => `Rückgängig: ${what}`,
  nothingToUndo: 'Es gibt nichts rückgängig zu machen.',
  next: (question, left) => `Noch ${left}. Als Nächstes: ${question}`,
  none: 'Nichts mehr offen.',
  keys: {
    button: 'Tastatur',
    title: 'Tastatur',
    next: 'nächste Gruppe',
    previous: 'vorige Gruppe',
    approve: 'zustimmen oder den Vorschlag verwenden',
    merge: 'andere Antwort verwenden',
    reject: 'widersprechen oder ablehnen',
    reply: 'Antwort schreiben',
    mine: 'mir zuweisen',
    undo: 'letzte Entscheidung zurücknehmen',
    help: 'diese Liste',
    send: 'einen Grund oder eine Antwort absenden',
    close: 'Schließen',
  },
  needs:
    'Der Posteingang ist für alle, die den Bot betreuen. Melden Sie sich mit einem Schlüssel an, der das erlaubt.',
  noModel: 'Dieses Modell gibt es hier nicht.',
  callers: {
    visitor: (name) => `Besucher ${name}`,
    key: (name) => name,
    user: (name) => name,
    local: 'Dieser Rechner',
    admin: 'Verwaltung',
    unknown: 'Unbekannt',
  },
};
