import type { Messages } from '../en';

import { plural } from '../plural';

export const ui: Messages['ui'] = {
  pages: {
    label: 'Seiten',
    chat: 'Chat',
    repertoire: 'Repertoire',
    inbox: 'Posteingang',
    draw: 'Zeichnen',
    learning: 'Lernen',
    reports: 'Berichte',
    cluster: 'Cluster',
    routes: 'Routen',
    shared: 'Geteiltes Gespräch',
  },
  skip: 'Zum Inhalt springen',
  justNow: 'gerade eben',
  loading: 'Wird geladen …',
  notLoaded: 'Diese Seite konnte nicht geladen werden. Prüfen Sie Ihre Verbindung.',
  reload: 'Neu laden',
  cancel: 'Abbrechen',
  close: 'Schließen',
  save: 'Speichern',
  control: 'Strg',
  enter: 'Enter',
  sends: 'sendet',
  delete: 'Löschen',
  undo: 'Rückgängig',
  refresh: 'Aktualisieren',
  copy: 'Kopieren',
  copied: 'Kopiert',
  copyFailed: 'Ihr Browser hat das Kopieren nicht erlaubt.',
  more: 'Weitere Aktionen',
  dismiss: 'Schließen',
  notifications: 'Mitteilungen',
  explain: (what) => `Was bedeutet „${what}“?`,
  settings: {
    label: 'Einstellungen',
    theme: 'Farben',
    system: 'Wie das Gerät',
    light: 'Hell',
    dark: 'Dunkel',
    language: 'Sprache',
    details: 'Angaben zum Modell zeigen',
    offlineAnswers: 'Antworten ohne Verbindung',
    keys: 'Tastenkürzel',
  },
  connection: {
    lost: 'Keine Verbindung zum Server. Diese Seite verbindet sich von selbst wieder.',
    ended: 'Sie wurden abgemeldet. Melden Sie sich wieder an, um weiterzumachen.',
  },
  counts: {
    replies: (count, shown) => `${shown} ${plural(count, 'Antwort', 'Antworten')}`,
    questions: (count, shown) => `${shown} ${plural(count, 'Frage', 'Fragen')}`,
  },
  progress: {
    saving: 'wird gespeichert …',
    saved: 'gespeichert',
    waiting: 'Auf diesem Gerät aufgehoben, bis die Verbindung wieder da ist.',
    notSaved: (problem) => `nicht gespeichert: ${problem}`,
    held: 'Danke. Es wird geprüft, bevor es gelernt wird.',
    learned: (version) => `gelernt in Version ${version}`,
    learnedIn: (version, time) => `gelernt in Version ${version}, nach ${time}`,
    notLearned: (reason) => `nicht gelernt: ${reason}`,
    rejected: 'es wurde geprüft und nicht angenommen',
    otherReply: 'Stattdessen wurde eine andere Antwort geschrieben.',
    expired: 'niemand sonst hat rechtzeitig zugestimmt',
    noReason: 'ohne Angabe eines Grundes',
    undoing: 'wird zurückgenommen …',
    undone: 'zurückgenommen',
    unlearned: (version) => `verlernt in Version ${version}`,
    noReply: 'keine Antwort',
    noAnswer: 'keine Antwort',
    now: (answer) => `jetzt noch einmal gefragt: ${answer}`,
    still: (answer) => `jetzt noch einmal gefragt: weiterhin ${answer}`,
    changed: (before, now) => `jetzt noch einmal gefragt: vorher ${before}, jetzt ${now}`,
  },
  hold: {
    frozen: (reason) =>
      reason === ''
        ? 'wird aufgehoben und gelernt, sobald das Lernen weitergeht'
        : `wird aufgehoben und gelernt, sobald das Lernen weitergeht (angehalten: ${reason})`,
    paused: 'wird aufgehoben und gelernt, sobald der Lernprozess zurück ist',
  },
  today: 'Heute',
  yesterday: 'Gestern',
  model: 'Modell',
  causes: {
    guard: (since) => `der Wächter sah seit Ereignis ${since} schlechtere Antworten`,
    lossRose: (since) => `seit Ereignis ${since} waren mehr Antworten falsch als davor`,
    lossRoseBy: (since, before, after, window) =>
      `${after} der letzten ${window} Antworten waren falsch; bis Ereignis ${since} waren es ${before}`,
    processEnded: (status, seconds) => `er endete mit Status ${status}; nächster Start in ${seconds} s`,
    processNotStarted: (error, seconds) => `er kann nicht gestartet werden: ${error}; nächster Start in ${seconds} s`,
    logEndsEarly: (head, until) =>
      `das Log endet bei Ereignis ${head}, das Modell hatte aber bis ${until} gelernt: Die Datenbank ist älter als die Versionen oder eine andere`,
    logHasOtherEvents: (until) =>
      `das Log hat bis ${until} andere Ereignisse, als das Modell gelernt hatte: Die Datenbank ist älter als die Versionen oder eine andere`,
  },
  banner: {
    paused: 'Das Lernen macht Pause. Das Modell antwortet weiter, und was Sie beibringen, geht nicht verloren.',
    frozen: (reason) =>
      reason === ''
        ? 'Das Lernen ist angehalten. Das Modell antwortet weiter.'
        : `Das Lernen ist angehalten: ${reason}. Das Modell antwortet weiter.`,
    relearning: 'Das Modell lernt alles noch einmal. Bis dahin können die Antworten schlechter sein.',
  },
  missing: {
    what: (model) => `Diese Seite braucht ${model}, und dieser Dienst hat keines.`,
    how: 'Um eines hinzuzufügen, schreiben Sie diese Zeilen in online.toml und starten Sie den Dienst neu:',
    ask: 'Fragen Sie die Menschen, die diesen Dienst betreiben.',
    title: 'Hier nicht verfügbar',
    noModel: (name, known) => `Es gibt kein Modell „${name}“. Dieser Dienst hat: ${known}.`,
  },
  problems: {
    noAnswer: 'Der Server antwortet nicht. Versuchen Sie es gleich noch einmal.',
    incomplete: 'Die Antwort wurde abgeschnitten. Versuchen Sie es noch einmal.',
    tooLong: (given, limit) => `Zu lang: ${given} von ${limit} Zeichen.`,
    notSignedIn: 'Dafür müssen Sie sich zuerst anmelden.',
    notAllowed: 'Das dürfen Sie nicht.',
    notFound: 'Das gibt es nicht mehr.',
    changed: 'Jemand anderes hat das inzwischen geändert. Laden Sie die Seite neu.',
    tooLarge: 'Das ist zu groß zum Senden.',
    tooMany: 'Zu viele Anfragen. Warten Sie einen Moment.',
    tooManyUntil: (seconds) =>
      `Zu viele Anfragen. Versuchen Sie es in ${seconds} ${plural(seconds, 'Sekunde', 'Sekunden')} wieder.`,
    invalid: 'Das konnte nicht angenommen werden. Prüfen Sie Ihre Eingabe.',
    busy: 'Der Dienst ist ausgelastet oder startet gerade. Versuchen Sie es gleich noch einmal.',
    full: 'Der Dienst hat keinen Speicherplatz mehr. Sagen Sie es den Betreibern.',
    failed: 'Auf dem Server ist etwas schiefgegangen. Versuchen Sie es noch einmal.',
  },
};
