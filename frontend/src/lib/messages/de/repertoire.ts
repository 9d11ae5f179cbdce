import type { Messages } from '..';

const mal = (_: number, shown: string) => `${shown}-mal`;

export const repertoire: Messages['repertoire'] = {
  title: 'Repertoire',
  lead: 'Die Antworten, die dieses Modell geben darf. Änderungen werden sofort gelernt und gelten von da an.',
  noModel: (name) => `Dieser Dienst hat kein Modell „${name}“ mit Antworten.`,
  sections: 'Bereiche des Repertoires',
  tabs: { replies: 'Antworten', unanswered: 'Unbeantwortet', file: 'Import, Export' },
  needs: {
    unanswered: 'Unbeantwortete Fragen',
    changes: 'Änderungen am Repertoire',
    reply: 'Änderungen an einer Antwort',
    teach: 'Antworten auf diese Fragen',
    exports: 'Exporte',
    imports: 'Importe',
  },

  none: 'Keine Antwort passt.',
  replies: 'Antworten',
  search: 'Antworten und ihre Beispielfragen durchsuchen',
  show: 'Anzeigen',
  filters: { all: 'alle', given: 'aktiv', retired: 'stillgelegt', never_right: 'nie richtig' },
  neverRightNote:
    'Jede davon wurde jedes Mal als falsch bewertet. Die am häufigsten bewerteten stehen oben.',
  sort: 'Sortieren',
  orders: {
    listed: 'Wie hinzugefügt',
    most_rated: 'Am häufigsten bewertet',
    least_right: 'Am seltensten richtig',
    newest: 'Zuletzt hinzugefügt',
    by_text: 'A bis Z',
  },
  inQuestion: 'in einer Beispielfrage gefunden',
  added: 'hinzugefügt',
  examples: (count, shown) => `${shown} ${count === 1 ? 'Beispielfrage' : 'Beispielfragen'}`,
  notRated: 'noch nicht bewertet',
  neverRight: (rated, shown) => `${mal(rated, shown)} bewertet, nie richtig`,
  right: (right, _, shown) => `${right} von ${shown} richtig`,
  showMore: (left) => `Mehr anzeigen (noch ${left})`,

  reply: 'Antwort',
  all: 'Alle Antworten',
  missing: (id) => `Es gibt keine Antwort „${id}“. Vielleicht wurde sie gelöscht.`,
  text: 'Was die Antwort sagt',
  edit: 'Bearbeiten',
  copy: 'Antwort kopieren',
  retire: 'Stilllegen',
  retireTitle: 'Diese Antwort stilllegen?',
  retireText:
    'Niemand bekommt diese Antwort mehr. Was über sie gelernt wurde, bleibt erhalten, und Sie können sie wiederherstellen.',
  retired: 'Antwort stillgelegt',
  restore: 'Wiederherstellen',
  isRetired: 'stillgelegt: wird nicht gegeben',
  questions: 'Beispielfragen',
  addQuestion: 'Eine Frage hinzufügen, zu der sie passt',
  add: 'Hinzufügen',
  remove: 'Entfernen',
  removeTitle: 'Diese Frage entfernen?',
  removeText: (question) => [
    `„${question}“ ist dann kein Beispiel dieser Antwort mehr.`,
    'Das Modell verlernt sie sofort, für alle.',
  ],
  removed: 'Frage entfernt',
  removeQuestion: (question) => `„${question}“ entfernen`,
  feedback: 'Feedback',
  noFeedback: 'Noch kein Feedback.',
  noFeedbackOfYours: 'Noch kein Feedback von Ihnen.',
  verdict: (right) => (right ? 'richtig' : 'falsch'),
  takeBack: 'Zurücknehmen',
  takeBackOf: (verdict, question) => `Die Bewertung „${verdict}“ zu „${question}“ zurücknehmen`,

  newReply: 'Neue Antwort',
  newQuestions: 'Fragen, zu denen sie passt, eine pro Zeile (freiwillig)',
  addReply: 'Diese Antwort hinzufügen',

  steps: {
    added: 'hinzugefügt',
    questionAdded: 'Frage hinzugefügt',
    questionRemoved: 'Frage entfernt',
    takenBack: 'zurückgenommen',
    retired: 'stillgelegt',
    restored: 'wiederhergestellt',
    noLongerGiven: (version) => `wird seit Version ${version} nicht mehr gegeben`,
    givenAgain: (version) => `wird seit Version ${version} wieder gegeben`,
    taught: (count, shown) =>
      count === 1 ? 'für 1 Frage beigebracht' : `für ${shown} Fragen beigebracht`,
    imported: (file) => `aus ${file} importiert`,
  },

  unanswered: 'Fragen ohne Antwort',
  unansweredNote:
    'Fragen der letzten Zeit, die noch keine Antwort bekommen. Ähnliche Fragen stehen zusammen.',
  allAnswered: 'Jede Frage der letzten Zeit bekommt eine Antwort.',
  group: (question) => `„${question}“ und ähnliche Fragen`,
  asked: (count, shown) => (count === 1 ? '' : `${mal(count, shown)}, zuletzt`),
  showFewer: 'Weniger anzeigen',
  showAll: (count, shown) => (count === 1 ? '1 Frage anzeigen' : `Alle ${shown} Fragen anzeigen`),
  taught: (reply) => `Antwort beigebracht: „${reply}“`,
  whatReply:
    'Wie soll die Antwort lauten? Schreiben Sie eine, oder suchen Sie unter den vorhandenen',
  suggested: 'Vorgeschlagene Antworten:',
  found: 'Antworten mit diesen Wörtern:',
  foundRetired: 'stillgelegt; das Beibringen stellt sie wieder her',
  teach: (count, shown) =>
    count === 1 ? 'Diese Antwort beibringen' : `Für alle ${shown} Fragen beibringen`,
  suggestionsWait: (count, shown) =>
    count === 1 ? '1 Vorschlag wartet im Posteingang' : `${shown} Vorschläge warten im Posteingang`,
  giveReply: 'Antwort geben',
  dismiss: 'Verwerfen',
  dismissHint:
    'Spam oder nicht unser Thema. Es kommt wieder, wenn fünf weitere Menschen danach fragen.',

  file: {
    export: 'Export',
    exportNote:
      'Alle Antworten mit ihren Beispielfragen, auch die stillgelegten, als Datei, die sich wieder importieren lässt.',
    exportAs: (format) => `Als ${format} exportieren`,
    import: 'Import',
    jsonl: 'JSONL mit einer Antwort pro Zeile:',
    csv: 'Oder CSV oder eine Excel-Mappe (.xlsx) mit denselben Spalten: die Beispiele stehen in einer Zelle, eines pro Zeile.',
    preview: 'Nur „text“ ist nötig. Sie sehen eine Vorschau, bevor sich etwas ändert.',
    choose: 'Datei auswählen',
    chooseAnother: 'Andere Datei auswählen',
    drop: 'Datei hier ablegen',
    orDrop: 'oder hier ablegen',
    checking: (name) => `${name} wird geprüft …`,
    changes: (name) => `Änderungen in ${name}`,
    effects: { new: 'neu', changed: 'geändert', unchanged: 'unverändert', invalid: 'ungültig' },
    sheets: (sheet, others) => `Gelesen wurde das Blatt „${sheet}“. Nicht gelesen: ${others}.`,
    byLine: 'Änderungen pro Zeile',
    line: 'Zeile',
    change: 'Änderung',
    field: (name, entry) => (entry === null ? `„${name}“` : `Eintrag ${entry} von „${name}“`),
    problems: {
      not_json: (line) => `Zeile ${line} ist kein JSON.`,
      not_object: (line) => `Zeile ${line} muss in geschweiften Klammern stehen: {"text": "…"}.`,
      not_csv: (line) => `Zeile ${line} ist kein CSV: Prüfen Sie die Anführungszeichen.`,
      cell_count: (line, _, about) =>
        `Zeile ${line}: Die Zahl der Zellen muss ${about} sein, wie in der ersten Zeile der Datei.`,
      formula_without_value: (line, _, about) =>
        `Zeile ${line}: Die Formel in Zelle ${about} wurde nie berechnet. Öffnen Sie die Datei in einer Tabellenkalkulation und speichern Sie sie.`,
      error_value: (line, _, about) => `Zeile ${line}: Zelle ${about} zeigt einen Fehler.`,
      number_format: (line, _, about) =>
        `Zeile ${line}: Zelle ${about} zeigt eine Zahl in einem Format, das nicht gelesen wird. Machen Sie daraus Text.`,
      no_column: (line, _, about) =>
        `Zeile ${line}: Zelle ${about} hat einen Wert, aber ihre Spalte hat keinen Namen.`,
      missing: (line, where) => `Zeile ${line}: ${where} fehlt.`,
      unknown_field: (line, where) =>
        `Zeile ${line}: ${where} ist kein bekanntes Feld. Bekannt sind „id“, „text“, „examples“ und „active“.`,
      not_text: (line, where) => `Zeile ${line}: ${where} muss Text in Anführungszeichen sein.`,
      not_list: (line, where) =>
        `Zeile ${line}: ${where} muss eine Liste in eckigen Klammern sein.`,
      not_boolean: (line, where) => `Zeile ${line}: ${where} muss true oder false sein.`,
      not_id: (line, where) =>
        `Zeile ${line}: ${where} muss aus 1 bis 128 Zeichen ohne „#“ und „/“ bestehen.`,
      not_valid: (line, where) => `Zeile ${line}: ${where} hat einen Wert, der nicht möglich ist.`,
      no_text: (line, where) => `Zeile ${line}: ${where} ist leer.`,
      too_long: (line, where, about) =>
        `Zeile ${line}: ${where} ist zu lang. Möglich sind höchstens ${about} Zeichen.`,
      text_taken: (line, _, about) =>
        `Zeile ${line}: Die Antwort „${about}“ hat diesen Text schon.`,
      second_text: (line, _, about) =>
        `Zeile ${line}: Zeile ${about} gibt derselben „id“ einen anderen Text.`,
    },
    shared: (example, reply, line) =>
      line === null
        ? `Die Antwort „${reply}“ hat das Beispiel „${example}“ schon: Dann zählt das dieser Zeile.`
        : `Zeile ${line} gibt das Beispiel „${example}“ der Antwort „${reply}“: Dann zählt das dieser Zeile.`,
    sharedCount: (count, shown) =>
      `${shown} ${count === 1 ? 'Beispiel gehört' : 'Beispiele gehören'} zu zwei Antworten. Das letzte zählt.`,
    before: (text) => `vorher: ${text}`,
    newExamples: (count, shown) =>
      `${shown} ${count === 1 ? 'neue Beispielfrage' : 'neue Beispielfragen'}`,
    retired: 'stillgelegt',
    restored: 'wiederhergestellt',
    firstLines: (shown, all) => `Die ersten ${shown} von ${all} Zeilen werden gezeigt.`,
    skip: (count, shown) =>
      count === 1
        ? 'Die ungültige Zeile überspringen'
        : `Die ${shown} ungültigen Zeilen überspringen`,
    importLines: (count, shown) => `${shown} ${count === 1 ? 'Zeile' : 'Zeilen'} importieren`,
  },
};
