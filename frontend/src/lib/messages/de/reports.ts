import type { Messages } from '..';

import { plural } from '../plural';

export const reports: Messages['reports'] = {
  title: 'Berichte',
  lead: 'Wie gut ist ein Modell? Sein ganzes Log wird nachgespielt: Jede Antwort wird zuerst bewertet und erst danach gelernt.',
  what: 'Berichte und Auswertungen',
  documentTitle: (name) => `Bericht über ${name}`,
  verdicts: {
    good: 'Gut',
    attention: 'Braucht Aufmerksamkeit',
    unclear: 'Noch nicht zu beurteilen',
  },
  own: {
    title: (model) => `Bericht über ${model}`,
    empty: (model) =>
      `${model} hat noch keine Rückmeldungen. Nach der ersten Bewertung erscheint hier ein Bericht.`,
    made: (until, at) => `Bis Ereignis ${until}, erstellt ${at}.`,
    newer: (count, shown) =>
      `Seitdem ${shown} ${plural(count, 'neues Ereignis', 'neue Ereignisse')}.`,
    show: 'Anzeigen',
    make: 'Bericht erstellen',
    makeNew: 'Neuen Bericht erstellen',
    older: (count, shown) => `${shown} ${plural(count, 'älterer Bericht', 'ältere Berichte')}`,
    upTo: (until, at) => `Bis Ereignis ${until}, ${at}`,
    failed: (reason) => `Der Bericht konnte nicht erstellt werden: ${reason}`,
  },
  upload: {
    title: 'Ein eigenes Log auswerten',
    choose: 'Datei auswählen',
    drop: 'Log hier ablegen',
    orDrop: 'oder hier ablegen',
    formats:
      'CSV, Parquet, JSON-Zeilen mit „input“ und „label“, Vowpal Wabbit oder ein exportiertes Log eines Dienstes; auch komprimiert (.gz, .zst).',
    privacy: 'Die Datei wird nach der Auswertung gelöscht. Nur der Bericht bleibt.',
    label: 'Welche Spalte soll vorhergesagt werden?',
    guessed: 'Das ist unsere Vermutung. Ändern Sie sie, wenn sie nicht stimmt.',
    options: 'Optionen',
    models: 'Zu vergleichende Modelle',
    fitting: 'alle passenden',
    skip: 'Ungültige Zeilen überspringen, bis zu 10\u00a0%',
    send: 'Auswerten',
    another: 'Andere Datei auswählen',
    sent: (share) => `${share} gesendet`,
    writing: 'Datei wird gespeichert …',
    progress: (name) => `Hochladen von ${name}`,
    tooLarge: (name, size, limit) =>
      `${name} hat ${size}. Dieser Dienst nimmt Logs bis ${limit} an.`,
  },
  columns: {
    title: 'Spalten, die gelesen werden',
    note: (rows, shown) =>
      rows === 1
        ? 'An der ersten Zeile erkannt. Entfernen Sie den Haken bei allem, was nicht gelesen werden soll.'
        : `An den ersten ${shown} Zeilen erkannt. Entfernen Sie den Haken bei allem, was nicht gelesen werden soll.`,
    looking: 'Spalten werden erkannt …',
    tooLarge: 'Die Spalten dieser Datei werden nach dem Hochladen erkannt.',
    none: 'Wählen Sie mindestens eine Spalte: Ohne Spalten lässt sich nichts vorhersagen.',
    dropped: (kind) => `${kind}: wird nicht gelesen, wie Sie es wählten`,
    treated: (kind, treatment, reason) => `${kind}: ${treatment}; ${reason}`,
    textBeside:
      'Text: wird neben anderen Spalten ausgelassen. Soll er gelesen werden, wählen Sie alle anderen ab.',
    kinds: {
      number: 'Zahl',
      category: 'Kategorie',
      text: 'Text',
      vector: 'Vektor',
      date: 'Datum',
      identifier: 'Kennung',
      empty: 'Leer',
    },
    treatments: {
      read: 'wird so gelesen, wie sie ist',
      left_out: 'wird ausgelassen',
      parsed: 'wird als Tage seit 1970, Wochentag und Stunde gelesen',
      input: 'das ist es, was gelesen wird',
      spread: 'wird als je eine Zahl für jede Stelle gelesen',
      time: 'der Zeitpunkt jeder Zeile',
    },
    reasons: {
      no_value: 'sie hat keinen Wert',
      lists: 'sie enthält Listen von Zahlen',
      leading_zero: 'eine ihrer Zahlen beginnt mit 0, darum sind alle Texte',
      decimal_commas: 'ihre Zahlen haben Dezimalkommas',
      grouped_digits: 'Kommas gliedern die Ziffern ihrer Zahlen',
      units: 'Zahlen mit derselben Einheit in jeder Zeile, ohne sie gelesen',
      numbers: 'sie enthält Zahlen',
      mixed: 'sie enthält Texte und Zahlen',
      truth_values: 'sie enthält Wahrheitswerte',
      dates: 'sie enthält Daten',
      sentences: 'sie enthält Sätze',
      names: 'sie enthält Namen',
      another_word: 'in jeder Zeile ein anderes Wort',
      counts_rows: 'sie zählt die Zeilen',
      another_id: 'in jeder Zeile eine andere Zahl, und sie heißt wie eine Kennung',
    },
  },
  preview: {
    title: 'Das haben wir erkannt',
    table: (format, columns, rows) =>
      `${format}-Tabelle, ${columns} ${plural(columns, 'Spalte', 'Spalten')}${rows}.`,
    lines: (rows) => `Beispiele mit Eingabe und Label${rows}.`,
    service: (model, kind, rows) => `Log eines Dienstes, Modell ${model} (${kind})${rows}.`,
    text: (format, rows) => `${format}${rows}.`,
    closed: (format) => `${format}. Die Datei wird nach dem Hochladen gelesen.`,
    unknown: 'Der Anfang dieser Datei konnte hier nicht gelesen werden. Der Dienst versucht es.',
    rows: (shown) => `, ${shown} Zeilen`,
    aboutRows: (shown) => `, etwa ${shown} Zeilen`,
    firstRows: (count) => (count === 1 ? 'Die erste Zeile' : `Die ersten ${count} Zeilen`),
    isLabel: 'vorherzusagen',
    problems: {
      no_label: 'kein Label',
      too_many_cells: 'zu viele Zellen',
      too_few_cells: 'zu wenige Zellen',
      open_quote: 'Anführungszeichen offen',
      not_json: 'kein JSON-Objekt',
      no_example: 'Eingabe oder Label fehlt',
    },
    refused:
      'Markierte Zeilen sind nicht verwendbar. Berichtigen Sie sie, oder überspringen Sie ungültige Zeilen unter „Optionen“.',
    openQuote:
      'Ein Anführungszeichen ist nicht geschlossen; alles, was in der Datei darauf folgt, ist eine Zelle.',
  },
  list: {
    title: 'Ausgewertete Logs',
    none: 'Hier erscheinen die Logs, die Sie auswerten.',
    about: (size, at, models) => `${size}, ${at}${models === '' ? '' : `, mit ${models}`}`,
    more: (name) => `Aktionen für ${name}`,
    cancel: (name) => `${name} abbrechen`,
    cancelled: (name) => `Abgebrochen. Von ${name} wurde nichts behalten.`,
    deleteTitle: (name) => `Bericht über ${name} löschen?`,
    deleteText: 'Er wird für alle gelöscht. Das Log selbst ist nicht mehr hier.',
  },
  report: {
    of: (model, until) => `${model}, bis Ereignis ${until}`,
    replayOf: (name) => `Auswertung von ${name}`,
    open: 'In neuem Tab öffnen',
    openHere: 'Bericht öffnen',
    goTo: 'Zum Bericht',
    copyLink: 'Link kopieren',
    linkCopied: 'Link kopiert.',
    download: 'Herunterladen',
    soon: 'Der Bericht erscheint hier, sobald er fertig ist.',
    language: 'Der Bericht ist auf Englisch.',
    none: 'Wählen Sie links einen Bericht aus, oder legen Sie dort ein Log ab.',
    making: (model) => `Der Bericht über ${model} wird erstellt`,
    gone: 'Diese Auswertung gibt es nicht mehr. Nur die neuesten werden aufbewahrt.',
    oldGone: (until) =>
      `Den Bericht bis Ereignis ${until} gibt es nicht mehr. Sie sehen den neuesten.`,
    done: (name) => `Die Auswertung von ${name} ist fertig.`,
    ended: (name) => `${name} konnte nicht ausgewertet werden.`,
    whatNext:
      'Korrigieren Sie die Datei, oder erlauben Sie in den Optionen ungültige Zeilen, und senden Sie sie erneut.',
  },
  refused: {
    empty: 'Die Datei ist leer.',
    tooLarge: (limit) => `Die Datei ist zu groß. Dieser Dienst nimmt Logs bis ${limit} an.`,
    labelMissing:
      'Diese Datei ist eine Tabelle. Nennen Sie die Spalte, die vorhergesagt werden soll.',
    columnMissing: (column, columns) =>
      `Die Datei hat keine Spalte „${column}“. Sie hat: ${columns}.`,
    line: (line, problem) =>
      line === null ? `Eine Zeile ${problem}.` : `Zeile ${line} ${problem}.`,
    moreLines: (count, shown) =>
      count === 1
        ? 'Mindestens 1 weitere Zeile ist ebenfalls unbrauchbar.'
        : `Mindestens ${shown} weitere Zeilen sind ebenfalls unbrauchbar.`,
    problems: {
      not_json: 'ist kein JSON-Objekt',
      no_example: 'ist kein Beispiel: Erwartet wird {"input": …, "label": …}',
      too_many_cells: 'hat mehr Zellen, als die erste Zeile Spalten nennt',
      too_few_cells: 'hat weniger Zellen, als die erste Zeile Spalten nennt',
      open_quote: 'hat ein Anführungszeichen, das nicht geschlossen ist',
      no_label: 'hat kein Label',
      not_vw: 'hat nicht das Format von Vowpal Wabbit: Erwartet wird „Label |Merkmale“',
      bad_input: 'hat eine unbrauchbare Eingabe',
      bad_header: 'ist kein Kopf eines Logs dieses Dienstes; exportieren Sie das Log neu',
      no_header: 'ist kein Kopf: Das Log beginnt ohne einen; exportieren Sie es neu',
      unknown_line: 'ist von einer Art, die diese Version nicht kennt',
      wrong_field:
        'hat ein Feld nicht, das Zeilen eines Logs haben, oder einen falschen Wert darin',
      contradiction: 'widerspricht einer früheren Zeile, die gilt',
      out_of_order: 'hat eine Stelle, die nicht auf die vorige folgt',
      other_log: 'beginnt ein weiteres Log; senden Sie jedes Log für sich',
      cut_off: 'ist abgeschnitten: Die Datei endet mitten darin',
      other: 'ist unbrauchbar',
    },
    columnTwice: (column) =>
      `Die Datei hat die Spalte „${column}“ mehr als einmal. Benennen Sie alle bis auf eine um.`,
    columnUnusable: (column) =>
      `Die Spalte „${column}“ enthält weder Zahlen noch Texte, Datumsangaben oder Listen von Zahlen. Lassen Sie sie unter „Spalten“ weg.`,
    lineTooLong: (limit) => `Die Datei hat eine Zeile von mehr als ${limit}.`,
    unpacksTooLarge: (limit) => `Entpackt hat die Datei mehr als ${limit}.`,
    unpacksTooFar: (ratio) => `Entpackt ist die Datei mehr als ${ratio}-mal so groß.`,
    unreadable:
      'Die Datei kann nicht gelesen werden. Vielleicht hat sie ein anderes Format, als ihr Name sagt, oder sie ist beschädigt.',
    cutOff: 'Die komprimierte Datei ist unvollständig: Sie endet mittendrin.',
    withoutRows: 'Die Datei hat keine Zeilen.',
    otherRelease:
      'Das Log wurde von einer anderen Version exportiert. Exportieren Sie es noch einmal.',
    waiting: (count) =>
      plural(
        count,
        'Es wartet schon ein Log. Senden Sie dieses noch einmal, wenn es fertig ist.',
        `Es warten schon ${count} Logs. Senden Sie dieses noch einmal, wenn eines davon fertig ist.`,
      ),
    uploadCutOff: 'Das Hochladen brach ab. Von der Datei wurde nichts behalten.',
  },
  progress: {
    of: (name) => `Fortschritt von ${name}`,
    waiting: (ahead) => (ahead === 0 ? 'Beginnt gleich' : `Wartet: ${ahead} davor`),
    events: (done, total) =>
      `${done} von etwa ${total} ${plural(total, 'Ereignis', 'Ereignissen')}`,
    perSecond: (speed) => `${speed} pro Sekunde`,
    left: (time) => `noch etwa ${time}`,
    estimating: 'Restzeit wird geschätzt …',
    seconds: (count) => `${count} ${plural(count, 'Sekunde', 'Sekunden')}`,
    minutes: (count) => `${count} min`,
    hours: (hours, minutes) => (minutes === 0 ? `${hours} h` : `${hours} h ${minutes} min`),
    steps: {
      'waiting for its turn': 'Wartet',
      starting: 'Die Auswertung wird geladen',
      'reading the log': 'Log wird gelesen, Modelle werden gewählt',
      'writing the log': 'Ereignisse werden gesammelt',
      'replaying it': 'Wird nachgespielt',
      'writing the page': 'Bericht wird gezeichnet',
    },
  },
};
