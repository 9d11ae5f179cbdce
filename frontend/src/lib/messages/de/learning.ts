import type { Messages } from '../en';

import { plural } from '../plural';

export const learning: Messages['learning'] = {
  title: 'Lernen',
  lead: 'Wie gut die Antworten jetzt sind und was das Modell gelernt hat.',
  chart: {
    accuracy: 'Trefferquote',
    error: 'Mittlerer Fehler',
    note: 'Jede Antwort wird beurteilt, bevor das Modell aus ihr lernen darf. Gestrichelt, zum Vergleich: zwei Arten, blind zu raten.',
    moving: (count) => `Gleitendes Mittel über ${count} beurteilte Antworten:`,
    span: (first, last, time) => `Antworten ${first}–${last}${time && ` · ${time}`}`,
    fall: 'Beginn des Abfalls',
    marks: 'was geschah',
    versionTick: 'Version ging live',
    wentLive: (first, last) =>
      first === last ? `Version ${last} ging live` : `Versionen ${first} bis ${last} gingen live`,
    rollBack: 'Zurücksetzen',
    guardRolledBack: (version) => `der Wächter setzte auf Version ${version} zurück`,
    liveAgain: (version) => `Version ${version} antwortet wieder`,
    rolledBack: (version) => `auf Version ${version} zurückgesetzt`,
    guessers: (isError) =>
      isError
        ? 'Blind geraten: noch einmal die letzte Zahl, oder der bisherige Mittelwert. Jeder Punkt ist das Mittel des neuesten Zehntels der Beurteilungen, mindestens 20. Eine Beurteilung zählt auch dann, wenn die Bewertung später geändert oder zurückgenommen wird.'
        : 'Blind geraten: noch einmal, was zuletzt richtig war, oder immer, was am häufigsten richtig ist. Jeder Punkt ist das Mittel des neuesten Zehntels der Beurteilungen, mindestens 20. Eine Beurteilung zählt auch dann, wenn die Bewertung später geändert oder zurückgenommen wird.',
    lines: 'die Linien',
    replay: 'Das ganze Protokoll nachspielen',
    counting: (counted, head) =>
      `${counted} von ${head} ${plural(head, 'Ereignis', 'Ereignissen')} ${plural(counted, 'ist', 'sind')} gezählt.`,
    empty: 'Noch keine Antwort wurde beurteilt.',
    unknown: 'Nicht bekannt: Die Zahlen konnten nicht gelesen werden.',
    xLabel: 'beurteilte Antworten',
    names: {
      served: 'Modell',
      no_change: 'geraten: wie zuletzt',
      majority: 'geraten: das Häufigste',
      mean: 'geraten: bisheriges Mittel',
    },
    alarm: 'Alarm',
    asTable: 'Als Tabelle',
    tableOf: (title) => `${title}, als Tabelle`,
    loading: 'Das Diagramm wird geladen …',
    notLoaded: 'Das Diagramm konnte nicht geladen werden; seine Zahlen stehen darunter.',
    alarmOf: (what) => `Alarm: ${what}`,
  },
  verdict: {
    label: 'Urteil',
    waiting: 'Die Zahlen werden gelesen …',
    status: {
      good: 'Gut',
      needs_attention: 'Braucht Aufmerksamkeit',
      not_learning: 'Lernt nicht',
      too_little_feedback: 'Noch kein Urteil möglich',
      rolled_back: 'Zurückgesetzt',
    },
    event: (offset) => `Ereignis ${offset}`,
    place: (time, answer) =>
      time && answer ? `${time} (beurteilte Antwort ${answer})` : time || `beurteilte Antwort ${answer}`,
    falling: 'Gut, aber fallend',
    errorsGrow: 'Gut, aber mit wachsenden Fehlern',
    declining: (after, count, before, earlier, whose) =>
      `${after} der letzten ${count} beurteilten Antworten${whose} waren richtig, ${before} der ${earlier} davor.`,
    errorGrows: (after, count, before, earlier, whose) =>
      `Der mittlere Fehler der letzten ${count} Antworten${whose} ist ${after}, der ${earlier} davor ${before}.`,
    recovering: 'Erholt sich',
    recovered: (right, count) =>
      plural(
        count,
        `Die einzige seit dem Zurücksetzen beurteilte Antwort war ${right === '1' ? 'richtig' : 'falsch'}.`,
        `${right} der ${count} beurteilten Antworten seit dem Zurücksetzen ${plural(right, 'war', 'waren')} richtig.`,
      ),
    errorRecovered: (error, count) =>
      `Der mittlere Fehler der ${count} beurteilten ${plural(count, 'Antwort', 'Antworten')} seit dem Zurücksetzen ist ${error}.`,
    fallRemains: (since, right, count, before) =>
      `Die letzten ${count} beurteilten Antworten enthalten noch den Abfall seit ${since}: ${right} davon waren richtig; vorher ${before}.`,
    riseRemains: (since, after, count, before) =>
      `Die letzten ${count} Antworten enthalten noch die größeren Fehler seit ${since}: Ihr mittlerer Fehler ist ${after}; vorher ${before}.`,
    titled: (title) => `${title}:`,
    also: 'Außerdem',
    right: (share, count, whose) =>
      `${share} der letzten ${plural(count, 'beurteilten Antwort', `${count} beurteilten Antworten`)}${whose} waren richtig.`,
    error: (mean, count, whose) =>
      `Der mittlere Fehler der letzten ${plural(count, 'Antwort', `${count} Antworten`)}${whose} ist ${mean}.`,
    accuracyFell: (since, right, count, before, whose) =>
      `Seit ${since} waren nur ${right} der letzten ${count} beurteilten Antworten${whose} richtig; vorher ${before}.`,
    errorRose: (since, after, count, before, whose) =>
      `Seit ${since} ist der mittlere Fehler der letzten ${count} Antworten${whose} ${after}; vorher ${before}.`,
    belowBaseline: (guesser, count, other, model) =>
      `Das Modell ist nicht besser, als blind zu raten (${guesser}): Bei den letzten ${count} Antworten ergibt das ${other}, das Modell ${model}.`,
    guessers: {
      no_change: 'dasselbe wie zuletzt',
      majority: 'immer dieselbe Antwort',
      mean: 'immer der bisherige Mittelwert',
    },
    quarantine: (since) =>
      `Der Wächter hat das Modell zurückgesetzt. Entscheiden Sie unten, was mit dem Feedback seit ${since} geschieht.`,
    unservable: 'Keine Version des Modells kann geladen werden.',
    rejected: (since, reason) =>
      `Nichts, was seit ${since} gelernt wurde, geht live, denn die Prüfung lehnt es ab: ${reason}.`,
    refused: (refused, of) =>
      plural(
        of,
        'Das einzige Ereignis konnte nicht gelernt werden.',
        `${refused} der letzten ${of} Ereignisse ${plural(refused, 'konnte', 'konnten')} nicht gelernt werden.`,
      ),
    learnerStopped: 'Der Lernprozess läuft nicht. Feedback wird aufbewahrt.',
    learnerRestarting: (reason) => `Der Lernprozess startet neu. Feedback wird aufbewahrt. ${reason}`,
    frozen: (reason) =>
      reason
        ? `Das Lernen ist angehalten (${reason}). Feedback wird aufbewahrt.`
        : 'Das Lernen ist angehalten. Feedback wird aufbewahrt.',
    learningAgain: (reason) => `Das Modell lernt sein Protokoll noch einmal: ${reason}.`,
    behind: (events, waiting) =>
      plural(
        events,
        `Ein Ereignis ist noch nicht gelernt; es wartet seit ${waiting}.`,
        `${events} Ereignisse sind noch nicht gelernt; das älteste wartet seit ${waiting}.`,
      ),
    ofOlder: (version) => ` von Version ${version} und älteren`,
    olderRemain: (count, share) =>
      `Die letzten ${count} beurteilten Antworten enthalten noch welche von vor dem Zurücksetzen: ${share} der ${count} waren richtig.`,
    olderErrorsRemain: (count, mean) =>
      `Die letzten ${count} Antworten enthalten noch welche von vor dem Zurücksetzen: Ihr mittlerer Fehler ist ${mean}.`,
    rolledBack: (version, newest) => `Zurückgesetzt: Version ${version} antwortet, Version ${newest} ist die neueste.`,
    sinceRollBack: (right, count) =>
      `Seit dem Zurücksetzen: ${right} von ${count} ${plural(count, 'beurteilten Antwort', 'beurteilten Antworten')} richtig.`,
    errorSinceRollBack: (error, count) =>
      `Seit dem Zurücksetzen: mittlerer Fehler ${error} bei ${count} ${plural(count, 'beurteilten Antwort', 'beurteilten Antworten')}.`,
    answersForNow: (version) =>
      `Version ${version} antwortet, bis die nächste Bewertung gelernt ist. Dann antwortet wieder die neueste.`,
    answersStopped: (version) => `Version ${version} antwortet. Das Lernen ist angehalten.`,
    driftLoss: (since) => `Seit etwa ${since} sind Fehler häufiger.`,
    driftLossOver: (since) =>
      `Von etwa ${since} an waren Fehler eine Zeit lang häufiger; sie sind wieder so selten wie davor.`,
    driftLossBefore: (since) => `Vor dem Zurücksetzen wurden Fehler häufiger, von etwa ${since} an.`,
    driftFeatures: (since) => `Seit etwa ${since} sind die Eingaben anders.`,
    damaged: (versions) => `Kann nicht geladen werden: Version ${versions}.`,
    expired: (until) => `Ereignisse bis ${until} waren abgelaufen, bevor sie gelernt werden konnten.`,
    tooFew: (rated, enough) =>
      `Ein Urteil braucht ${enough} beurteilte Antworten auf Anfragen. Bisher ${plural(rated, 'ist', 'sind')} es ${rated}.`,
    counting: (counted, of) =>
      `${counted} von ${of} ${plural(of, 'Ereignis', 'Ereignissen')} ${plural(counted, 'ist', 'sind')} gezählt.`,
  },
  durations: {
    seconds: (count, shown) => `${shown} ${plural(count, 'Sekunde', 'Sekunden')}`,
    minutes: (count, shown) => `${shown} ${plural(count, 'Minute', 'Minuten')}`,
    hours: (count, shown) => `${shown} ${plural(count, 'Stunde', 'Stunden')}`,
    days: (count, shown) => `${shown} ${plural(count, 'Tag', 'Tagen')}`,
  },
  recent: {
    label: 'Antworten jetzt',
    last: (count) => plural(count, 'Letzte beurteilte Antwort', `Letzte ${count} beurteilte Antworten`),
    lastError: (count) =>
      plural(count, 'Fehler der letzten Antwort', `Mittlerer Fehler der letzten ${count} Antworten`),
    lastOfOlder: (count, version) =>
      `${plural(count, 'Letzte beurteilte Antwort', `Letzte ${count} beurteilte Antworten`)} von Version ${version} und älteren`,
    lastErrorOfOlder: (count, version) =>
      `Mittlerer Fehler der letzten ${plural(count, 'Antwort', `${count} Antworten`)} von Version ${version} und älteren`,
    right: 'richtig',
    none: 'Noch nichts beurteilt',
    unknown: 'Antworten jetzt: nicht bekannt',
    unknownNote: 'Die Zahlen konnten nicht gelesen werden.',
    soFar: (rated, enough) =>
      `${rated} von ${enough} ${plural(enough, 'beurteilten Antwort', 'beurteilten Antworten')} auf Anfragen`,
    tooFew: (missing, shown) =>
      `Ein Anteil steht hier nach ${shown} weiteren ${plural(missing, 'Bewertung', 'Bewertungen')}: Bis dahin wäre er vor allem Zufall.`,
    guesser: (guesser) => `Zum Vergleich: ${guesser}`,
    guesserHint:
      'Was blindes Raten bei denselben Fragen erreicht hätte: das Bessere von „noch einmal, was zuletzt richtig war“ und „immer dieselbe Antwort“. Gezählt wird, wo das Feedback sagt, welche Antwort richtig ist: Eine schlechte Bewertung sagt nichts über eine andere Antwort. Ein nützliches Modell ist weit besser.',
    lifetime: 'Alle beurteilten Antworten',
    judgements: (count, shown) => `${shown} ${plural(count, 'Antwort', 'Antworten')}`,
    lifetimeHint:
      'Jede Bewertung beurteilt die Antwort, die vor ihr gegeben wurde, einmal, wenn sie kommt. Ein Label, das mit seiner Eingabe kommt, beurteilt, was das Modell darauf antwortet, bevor es davon lernt. Eine Beurteilung zählt auch dann, wenn die Bewertung später geändert oder zurückgenommen wird.',
    standing: 'Bewertungen, die gelten',
    standingHint:
      'Was die Menschen jetzt sagen: eine Bewertung je Person und Antwort, ohne geänderte und zurückgenommene. Das Repertoire und die Nutzung zählen ebenso.',
    good: (good) => `${good} gut`,
    guessed: (count, isAll) => (isAll ? `bei denselben ${count}` : `bei den ${count}, die es beurteilen`),
    trend: (values) => `Die neuesten beurteilten Antworten in Gruppen zu 50, älteste zuerst: ${values}`,
    trendAll: (count) => `Alle ${count} beurteilten Antworten, je Punkt etwa 50`,
    trendNewest: (count) => `Neueste ${count} beurteilte Antworten auf Anfragen, je Punkt etwa 50`,
    trendRolledBack: (count) => `${count} beurteilte Antworten dieser und älterer Versionen, je Punkt etwa 50`,
    from: (answer, time) => (time ? `ab Antwort ${answer} · ${time}` : `ab Antwort ${answer}`),
    to: (answer, time) => (time ? `bis Antwort ${answer} · ${time}` : `bis Antwort ${answer}`),
  },
  learner: {
    label: 'Gegenwärtiger Stand',
    title: 'Jetzt',
    state: 'Lernen',
    states: {
      running: 'an',
      restarting: 'startet neu',
      stopped: 'gestoppt',
      external: 'an, in einem anderen Prozess',
      unknown: 'unbekannt',
    },
    frozen: (reason) => (reason ? `angehalten: ${reason}` : 'angehalten'),
    version: 'Live-Version',
    rolledBack: (previous) => `zurückgesetzt von ${previous}`,
    newest: (newest) => `die neueste ist ${newest}`,
    learnedUntil: 'Hat gelernt',
    learnedHint:
      'Die Live-Version hat alles gelernt, was bis dahin gegeben wurde: Bewertungen, Korrekturen und gelehrte Antworten.',
    learned: (place) => `bis ${place}`,
    upToDate: 'auf dem neuesten Stand',
    behind: (count) => `${count} noch nicht gelernt`,
    without: (count, shown) =>
      `ohne die ${plural(count, 'seither beurteilte Antwort', `${shown} seither beurteilten Antworten`)}`,
    notLearned: (count, shown) =>
      `Lernen ist angehalten; ${shown} beurteilte ${plural(count, 'Antwort ist', 'Antworten sind')} nicht gelernt`,
    freshness: 'Feedback ist gelernt nach',
    freshnessHint: 'Von einer Bewertung bis zur ersten Antwort, die sie gelernt hat.',
    quantiles: (half, most) => `die Hälfte in ${half}, 95 % in ${most}`,
    rate: 'Feedback pro Minute',
    total: (count) => `${count} insgesamt`,
    setAside: (count, shown, reason) =>
      `${shown} ${plural(count, 'Version wurde', 'Versionen wurden')} beiseitegelegt: ${reason}`,
  },
  alarms: {
    title: 'Alarme',
    none: 'Bisher kein Alarm.',
    unknown: 'Nicht bekannt: Die Alarme konnten nicht gelesen werden.',
    loss: 'Fehler wurden häufiger',
    features: 'Die Eingaben haben sich verändert',
    classes: (names) => `Häufiger verfehlt: ${names}`,
    since: (since, at) => `seit etwa ${since} · bemerkt ${at}`,
    rates: (before, after) => `falsche Antworten: ${before} → ${after}`,
    ratesOf: (rates, wrong, of) => `${rates} (${wrong} von ${of})`,
    count: (count, shown) => `${shown} ${plural(count, 'Alarm', 'Alarme')}`,
    details: 'Einzelheiten',
    table: 'Alarme dieser Veränderung',
    what: 'Was sich verändert hat',
    sinceColumn: 'Seit etwa beurteilter Antwort',
    detected: 'Bemerkt bei beurteilter Antwort',
    before: 'Vorher',
    after: 'Nachher',
    kinds: {
      loss: 'Fehler wurden häufiger',
      features: 'die Eingaben haben sich verändert',
      class: (name) => `„${name}“ wurde häufiger verfehlt`,
    },
    older: (count, shown) => `${shown} frühere ${plural(count, 'Veränderung', 'Veränderungen')}`,
  },
  versions: {
    title: 'Versionen',
    list: 'Liste der Versionen',
    live: 'live',
    labels: 'Etiketten',
    labelled: (label, version) => `${label} → ${version}`,
    newer: 'neuer',
    none: 'Noch keine Version wurde veröffentlicht.',
    unknown: 'Nicht bekannt: Die Versionen konnten nicht gelesen werden.',
    count: (count, shown) => `${shown} ${plural(count, 'ist', 'sind')} aufbewahrt.`,
    note: 'Mit einem Etikett bleibt eine Version für immer erhalten und kann beim Namen genannt werden.',
    learnedUntil: (place) => `gelernt bis ${place}`,
    learnedNothing: 'hat noch nichts gelernt',
    more: 'Ältere Versionen zeigen',
    actions: (version) => `Aktionen für Version ${version}`,
    rollBack: (version) => `Auf Version ${version} zurücksetzen`,
    goForward: (version) => `Zu Version ${version} vorgehen`,
    compare: 'Was sich seit der Version davor geändert hat',
    compareLive: 'Was sich zwischen dieser und der Live-Version geändert hat',
    label: 'Etikett …',
    unlabel: (label) => `Etikett ${label} entfernen`,
    labelOf: (version) => `Etikett für Version ${version}`,
    set: 'Setzen',
    metrics: {
      events: 'gelernte Ereignisse',
      rated: 'beurteilte Antworten',
      right: 'richtige Antworten',
      drift_alarms: 'Alarme',
    },
  },
  actions: {
    rollBack: (version) => `Auf Version ${version} zurücksetzen`,
    goForward: (version) => `Zu Version ${version} vorgehen`,
    freeze: 'Lernen anhalten',
    changed: 'Was hat sich geändert?',
    rollBackTitle: (version) => `Auf Version ${version} zurücksetzen?`,
    rollBackText: (version) => [
      `Version ${version} antwortet sofort allen, anstelle der jetzigen.`,
      'Nichts wird gelöscht. Was seither gelernt wurde, bleibt im Protokoll.',
    ],
    made: (at) => `Entstanden: ${at}.`,
    rightBefore: (count, share) =>
      plural(
        count,
        `Von der einen davor beurteilten Antwort waren ${share} richtig.`,
        `Von den letzten ${count} davor beurteilten Antworten waren ${share} richtig.`,
      ),
    errorBefore: (count, error) =>
      `Der mittlere Fehler der letzten ${plural(count, 'davor beurteilten Antwort', `${count} davor beurteilten Antworten`)} war ${error}.`,
    rightBeforeFall: (count, share) => `Vor dem Abfall waren ${share} von ${count} beurteilten Antworten richtig.`,
    errorBeforeRise: (count, error) =>
      `Bevor die Fehler größer wurden, war der mittlere Fehler von ${count} beurteilten Antworten ${error}.`,
    rollBackStop: 'Auch das Lernen anhalten, damit es dabei bleibt',
    rollBackStopNote: 'Sonst antwortet sie nur, bis die nächste Bewertung gelernt ist.',
    rollBackReason: (version) => `auf Version ${version} zurückgesetzt`,
    rollBackAction: 'Zurücksetzen',
    goForwardTitle: (version) => `Zu Version ${version} vorgehen?`,
    goForwardText: (version) => [
      `Version ${version} ist neuer als die, die jetzt antwortet. Sie wurde zurückgesetzt oder war noch nicht live.`,
      'Sie antwortet sofort allen.',
    ],
    goForwardAction: 'Vorgehen',
    freezeTitle: 'Lernen anhalten?',
    freezeText: [
      'Das Modell antwortet weiter und lernt nichts, bis Sie fortfahren. Feedback wird aufbewahrt und dann gelernt.',
    ],
    freezeAction: 'Anhalten',
    rolledBack: (version) => `Version ${version} antwortet jetzt.`,
    rolledBackStopped: (version) => `Version ${version} antwortet jetzt. Das Lernen ist angehalten.`,
    frozen: 'Das Lernen ist angehalten.',
    resumeTitle: 'Weiter lernen?',
    resumeText: (version) => [
      `Version ${version} antwortet, bis die nächste Bewertung gelernt ist. Dann antwortet wieder die neueste, mit allem, was sie gelernt hat, auch mit dem, was zum Zurücksetzen geführt hat.`,
      'War das falsch, nehmen Sie es vorher zurück: Die Bewertungen eines Besuchers stehen auf der Seite Posteingang.',
    ],
  },
  operate: {
    title: 'Betrieb',
    guardTitle: 'Der Wächter hat die Live-Version zurückgesetzt',
    guardText: (version, at) => `Version ${version} antwortet seit ${at}.`,
    decide: (since) => `Das Lernen ist angehalten, bis Sie über das Feedback seit ${since} entscheiden.`,
    drop: 'Dieses Feedback verwerfen',
    dropTitle: 'Dieses Feedback verwerfen?',
    dropText: (since) => [
      `Alles Feedback seit ${since} wird zurückgenommen und nie gelernt.`,
      'Danach geht das Lernen weiter.',
    ],
    keep: 'Trotzdem lernen',
    keepTitle: 'Dieses Feedback lernen?',
    keepText: (since) => [`Alles Feedback seit ${since} wird gelernt, und die neueste Version geht wieder live.`],
    frozen: (at, reason) => (reason ? `Angehalten seit ${at}: ${reason}.` : `Angehalten seit ${at}.`),
    frozenNote: 'Feedback wird aufbewahrt und gelernt, sobald Sie fortfahren.',
    resume: 'Weiter lernen',
    reason: 'Lernen anhalten. Warum? (freiwillig)',
    freeze: 'Anhalten',
    past: 'Frühere Quarantänen',
    columns: {
      since: 'Feedback seit',
      reason: 'Grund',
      outcome: 'Ausgang',
      ended: 'Beendet',
    },
    outcomes: { learned: 'gelernt', dropped: 'verworfen' },
  },
  changes: {
    title: 'Was sich zwischen zwei Versionen geändert hat',
    lead: 'Die neuesten Fragen, die gestellt wurden, von beiden Versionen beantwortet.',
    from: 'Von Version',
    to: 'zu Version',
    hourBefore: 'eine Stunde davor',
    oldestKept: (version) =>
      `Von einer Stunde davor ist keine Version aufbewahrt. Verglichen mit Version ${version}, der direkt davor.`,
    compare: 'Vergleichen',
    comparing: 'Beide Versionen antworten …',
    summary: (changed, shown, of) =>
      changed === 0
        ? plural(of, 'Die einzige Frage bekommt dieselbe Antwort.', `Alle ${of} Fragen bekommen dieselbe Antwort.`)
        : `${shown} von ${of} ${plural(of, 'Frage', 'Fragen')} ${plural(changed, 'bekommt', 'bekommen')} eine andere Antwort.`,
    none: 'Noch keine Frage wurde aufgezeichnet.',
    between: (since, version) => `Version ${since} → ${version}`,
    better: (count, shown) =>
      `${shown} ${plural(count, 'ist', 'sind')} jetzt so, wie es die neueste Bewertung richtig nennt`,
    worse: (count, shown) =>
      `${shown} ${plural(count, 'war', 'waren')} so und ${plural(count, 'ist', 'sind')} es nicht mehr`,
    unwanted: (count, shown) =>
      `${shown} ${plural(count, 'bekam', 'bekamen')} ein 👎 und ${plural(count, 'wird', 'werden')} nicht mehr gegeben`,
    unknown: (count) => `${count} ohne Bewertung, die entscheidet`,
    ofTheFall: (since) =>
      `Die Bewertungen seit ${since} zählen hier mit. Sind gerade sie falsch, sagt „richtig“ wenig: Vergleichen Sie die Antworten selbst.`,
    table: 'Geänderte Antworten',
    question: 'Frage',
    before: (version) => `Version ${version}`,
    said: 'Was dazu gesagt wurde',
    noAnswer: 'keine Antwort',
    isBetter: 'jetzt richtig',
    isWorse: 'vorher richtig',
    thumbUp: '👍 für die damalige Antwort',
    thumbDown: '👎 für die damalige Antwort',
    label: (label) => `richtig: ${label}`,
    notRated: 'nicht bewertet',
    asked: (count) => `${count}-mal gefragt`,
    more: (count) => `Alle ${count} zeigen`,
  },
  members: {
    title: 'Mitglieder',
    note: 'Modelle, die nebeneinander lernen. Jedes antwortet, bevor es lernt; „vote“ sind alle zusammen. Ein ruhendes Mitglied liegt weit zurück und lernt wenig.',
    table: 'Tabelle der Mitglieder',
    columns: {
      name: 'Mitglied',
      accuracy: 'Trefferquote',
      recent: 'Letzte etwa 100',
      vote: 'Stimmanteil',
      state: 'Zustand',
    },
    served: 'antwortet',
    rests: 'ruht',
  },
  refused: {
    title: 'Abgelehntes Feedback',
    note: (count, shown) =>
      plural(
        count,
        'Ein Ereignis konnte nicht gelernt werden. Das Lernen ging ohne es weiter.',
        `${shown} Ereignisse konnten nicht gelernt werden. Das Lernen ging ohne sie weiter.`,
      ),
    table: 'Tabelle des abgelehnten Feedbacks',
    columns: { count: 'Ereignisse', reason: 'Grund', offsets: 'Ereignisnummern' },
    offsets: (first, last) => `${first} bis ${last}`,
  },
  rejected: {
    title: 'Abgelehnte Versionen',
    note: 'Die Prüfung ließ diese Versionen nicht live gehen. Die Version davor antwortete weiter, und das Lernen ging weiter.',
    table: 'Tabelle der abgelehnten Versionen',
    columns: { until: 'Gelernt bis', reason: 'Grund', times: 'Anzahl', first: 'Zuerst' },
  },
  encoder: {
    title: 'Text-Encoder',
    original: 'Der ursprüngliche Encoder ist in Gebrauch.',
    tuned: (name) => `Ein mit Korrekturen abgestimmter Encoder ist in Gebrauch: ${name}.`,
    untried: 'Noch keine Abstimmung wurde versucht.',
    last: (at) => `Letzte Abstimmung, ${at}:`,
    result: (before, count, after) => `${before} von ${count} gelehrten Fragen vorher richtig, ${after} nachher;`,
    adopted: 'besser, also übernommen.',
    kept: 'nicht deutlich besser, also blieb alles, wie es war.',
    ended: 'sie endete, bevor sie beurteilt werden konnte.',
  },
  needs: 'Zurücksetzen, Anhalten, Etiketten und abgelehntes Feedback',
};
