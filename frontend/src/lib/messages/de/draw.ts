/* The page for playing says “du”; the other pages say “Sie”. */

import { plural } from '../plural';

import type { Messages } from '..';

const capital = (label: string) => label.charAt(0).toUpperCase() + label.slice(1);
const drawings = (count: number, shown: string) =>
  `${shown} ${count === 1 ? 'Zeichnung' : 'Zeichnungen'}`;
const shapes = (count: number, shown: string) => `${shown} ${count === 1 ? 'Form' : 'Formen'}`;

export const draw: Messages['draw'] = {
  title: 'Zeichnen',
  lead: 'Ich lerne aus jeder Zeichnung, die du benennst.',
  leadInReview: 'Ich lerne aus den Zeichnungen, die du benennst. Neue Namen werden zuerst geprüft.',
  missing: 'ein Modell, das aus Zeichnungen lernt',
  board: {
    label: 'Zeichenfläche',
    keys: 'Die Pfeiltasten bewegen den Stift, die Leertaste setzt ihn auf und hebt ihn ab.',
    here: 'Hier zeichnen',
    undo: 'Strich zurück',
    clear: 'Leeren',
    at: (row, column) => `Zeile ${row}, Spalte ${column}`,
    down: 'Stift aufgesetzt',
    up: 'Stift abgehoben',
  },
  guess: {
    label: 'Vermutung',
    start: 'Zeichne einen Stern, ein Herz, ein Haus …',
    startAside: 'Dann sag mir, was es ist.',
    ready: 'Was zeichnest du als Nächstes?',
    readyAside: 'Ich rate, während du zeichnest.',
    knowing: 'Was möchtest du zeichnen?',
    knowingAside: (shapes, shown, names) =>
      `Ich kenne schon ${shown} ${shapes === 1 ? 'Form' : 'Formen'}: ${names}`,
    thinking: 'Hm …',
    none: 'Das kenne ich noch nicht. Was ist es?',
    noneAside: 'Wähle einen Namen oder tippe einen.',
    noneHeldAside: 'Was noch geprüft wird, nutze ich nicht. Wähle einen Namen oder tippe einen.',
    empty: 'Ich habe noch nichts gelernt.',
    emptyAside: 'Jemand, der mir etwas beibringen darf, muss den Anfang machen.',
    sure: (label) => `${capital(label)}!`,
    sureAside: (chance) => `Ich bin sicher: ${chance}.`,
    likely: (label) => `${capital(label)}?`,
    likelyAside: (chance) => `Ich glaube schon: zu ${chance} sicher.`,
    few: (label) => `${capital(label)}?`,
    fewAside: (seen) =>
      `Ich glaube schon, habe aber erst ${seen === 1 ? 'eine solche Zeichnung' : 'zwei solche Zeichnungen'} gesehen.`,
    unlike: (label) => `Neu für mich. Vielleicht ${label}?`,
    unlikeAside: 'Es sieht anders aus als alle Zeichnungen, die ich kenne. Was ist es?',
    bestAside: 'Das ist meine beste Vermutung.',
    approved: (label) => `${capital(label)} wurde freigegeben.`,
    approvedAside: 'Ich habe es gelernt.',
    approvedSoonAside: 'Ich lerne es gerade.',
    unsure: (label, other) => `Nicht sicher: ${label} oder ${other}?`,
    unsureAside: 'Sag es mir, dann weiß ich es besser.',
    only: (label) => `${capital(label)}?`,
    onlyAside: 'Etwas anderes kenne ich noch nicht. Ist es neu?',
    right: 'Ich habe es erraten!',
    rightAside: (label) => `Es ist: ${label}.`,
    rightHeldAside: (label) => `Es ist: ${label}. Deine Zeichnung wird noch geprüft.`,
    wrong: (label) => `${capital(label)}. Gemerkt!`,
    wrongAside: (guess) => `Ich hatte „${guess}“ vermutet.`,
    fresh: (label) => `${capital(label)}. Gemerkt!`,
    freshAside: 'Ich achte auf die nächste solche Zeichnung.',
    held: (label) => `${capital(label)}: zur Prüfung geschickt.`,
    heldAside: 'Ich kenne es, sobald jemand zugestimmt hat.',
    refused: (label) => `${capital(label)}: nicht gelernt.`,
    rejectedAside: (reason) => `Jemand, der sich um diese Seite kümmert, schreibt: ${reason}`,
    streak: (count) => `${count} in Folge`,
  },
  name: {
    label: 'Die Zeichnung benennen',
    what: 'Was ist es?',
    change: 'Falscher Name? Wähle einen anderen.',
    whatElse: 'Falsch? Wähle den richtigen Namen.',
    yes: (label) => `Ja, ${label}`,
    no: (label) => `Nein, ${label}`,
    next: 'Nächste Zeichnung',
    undo: (label) => `„${label}“ zurücknehmen`,
    classes: 'Namen',
    ideas: 'Ideen',
    idea: ['Stern', 'Herz', 'Haus', 'Sonne', 'Fisch', 'Baum'],
    other: 'Etwas anderes?',
    placeholder: 'Name eingeben',
    use: 'Beibringen',
  },
  status: {
    saving: 'Wird gespeichert …',
    waiting: 'Auf diesem Gerät gelernt.',
    learning: 'Gespeichert. Ich lerne …',
    learned: (seconds) => `Gelernt in ${seconds} ${plural(seconds, 'Sekunde', 'Sekunden')}.`,
    learnedNow: 'Gelernt.',
    nowRight: (label) => `Nächstes Mal sage ich „${label}“.`,
    nowWrong: (guess) => `Ich würde immer noch „${guess}“ sagen. Zeig mir noch ein paar.`,
    held: 'Danke! Es wird noch geprüft.',
    rejected: 'Es wurde geprüft und nicht freigegeben.',
    refused: 'Das konnte ich nicht lernen.',
    failed: 'Das wurde nicht gespeichert. Versuch es noch einmal.',
    paused: 'Gespeichert. Ich lerne es, sobald das Lernen weitergeht.',
    undoing: 'Wird zurückgenommen …',
    undone: 'Zurückgenommen.',
    forgotten: 'Zurückgenommen und vergessen.',
  },
  notice: {
    dismiss: (label) => `Hinweis zu „${label}“ schließen`,
    more: (shown) => `Danach noch ${shown}.`,
  },
  approval: {
    one: (label) => `${capital(label)} wurde freigegeben: Ich habe es gelernt.`,
    several: (shown) => `${shown} deiner Zeichnungen wurden freigegeben: Ich habe sie gelernt.`,
  },
  rights: {
    look: 'Zeichne, und sieh, was ich vermute. Melde dich an, um mir etwas beizubringen.',
    lookOnly: 'Zeichne, und sieh, was ich vermute. Beibringen ist hier nicht möglich.',
    known: 'Wähle einen der Namen, die ich kenne. Neue Namen sind hier nicht möglich.',
    signIn: 'Anmelden',
  },
  gallery: {
    title: 'Was du mir beigebracht hast',
    titleEveryone: 'Was mir alle beigebracht haben',
    taught: (classes, shownClasses, count, shown) =>
      `Du hast mir ${shapes(classes, shownClasses)} mit ${drawings(count, shown)} beigebracht.`,
    taughtByAll: (classes, shownClasses, count, shown) =>
      `Ich habe ${shapes(classes, shownClasses)} aus ${drawings(count, shown)} gelernt.`,
    score: (right, all) => `In diesem Besuch habe ich ${right} von ${all} erraten.`,
    fromOthers: (shown) => `${shown} weitere kenne ich von anderen.`,
    onlyHeld: (count, shown) =>
      count === 1
        ? '1 Zeichnung wird noch geprüft. Ich nutze sie, sobald jemand zugestimmt hat.'
        : `${shown} Zeichnungen werden noch geprüft. Ich nutze sie, sobald jemand zugestimmt hat.`,
    empty: 'Deine Zeichnungen erscheinen hier.',
    emptyEveryone: 'Noch hat mir niemand eine Zeichnung beigebracht.',
    whose: 'Wessen Zeichnungen',
    yours: 'Deine',
    everyones: 'Alle',
    count: drawings,
    waiting: (shown) => `${shown} noch zu prüfen`,
    rejected: 'Geprüft und nicht gelernt',
    isUnsent: 'Auf diesem Gerät gelernt. Ich sende es, sobald die Verbindung wieder da ist.',
    isWaiting: 'Wird noch geprüft. Ich nutze sie noch nicht.',
    drawingOf: (label, at) => `Zeichnung von ${label}, ${at}`,
    of: (label) => `Zeichnung von ${label}`,
    taughtAt: (at) => `Beigebracht ${at}`,
    seen: 'So sehe ich sie: 8 mal 8 Felder.',
    squares:
      'Wo ich die Striche einer Zeichnung nicht habe, zeige ich sie so, wie ich sie sehe: 8 mal 8 Felder.',
    forget: 'Diese Zeichnung vergessen',
    forgotten: (label) => `Ich habe diese Zeichnung von ${label} vergessen.`,
    more: (shown) => `${shown} weitere zeigen`,
    fewer: 'Weniger zeigen',
    older: (_count, shown) => `und ${shown} ältere`,
    actions: (label) => `Aktionen für ${label}`,
    forgetAll: (count, shown) =>
      count === 1 ? 'Meine Zeichnung vergessen' : `Alle ${shown} meiner Zeichnungen vergessen`,
    confirmTitle: (label) => `„${label}“ vergessen?`,
    confirmText: (count, shown) =>
      count === 1
        ? 'Ich vergesse deine Zeichnung. Das lässt sich nicht rückgängig machen.'
        : `Ich vergesse alle ${shown} Zeichnungen, die du mir beigebracht hast. Das lässt sich nicht rückgängig machen.`,
    confirmOthers: 'Was andere mir beigebracht haben, bleibt.',
    confirmAction: 'Vergessen',
    classForgotten: (label, count, shown) =>
      `Ich habe ${drawings(count, shown)} von ${label} vergessen.`,
    forgetOthersTitle: 'Diese Zeichnung für alle vergessen?',
    forgetOthersText: 'Jemand hat sie mir beigebracht. Das lässt sich nicht rückgängig machen.',
  },
  demo: {
    title: 'So funktioniert es',
    steps: [
      ['Zeichnen', 'Was du möchtest, mit Finger, Stift oder Maus.'],
      ['Benennen', 'Sag mir, was es ist. Eine Zeichnung genügt für den Anfang.'],
      ['Noch einmal zeichnen', 'Ich rate. Richtig oder falsch, ich werde jedes Mal besser.'],
    ],
    stepsInReview: [
      ['Zeichnen', 'Was du möchtest, mit Finger, Stift oder Maus.'],
      ['Benennen', 'Sag mir, was es ist. Einen neuen Namen lerne ich erst nach einer Prüfung.'],
      ['Noch einmal zeichnen', 'Nach der Prüfung rate ich und werde jedes Mal besser.'],
    ],
    name: 'Stern',
    answer: 'Stern!',
  },
  curve: {
    title: 'Wie oft rate ich richtig?',
    explained:
      'Es zählt, was ich vermutet habe, bevor du mir den Namen gesagt hast. Die Linie zeigt den Anteil der richtigen Vermutungen.',
    explainedOwn:
      'Die erste Zeichnung mit einem neuen Namen zählt nicht: Ich kann sie nicht erraten.',
    firstOwn: 'Noch kein Name, den ich hätte erraten können: Alle waren mir neu.',
    explainedAll:
      'Jeder Punkt ist der Anteil der richtigen Vermutungen im neuesten Zehntel aller Zeichnungen, mindestens 20. Zurückgenommene zählen weiter mit.',
    whose: 'Wessen Zeichnungen',
    yours: 'Deine',
    everyones: 'Alle',
    own: 'Deine Zeichnungen in diesem Besuch',
    all: 'Zeichnungen von allen',
    noneOwn: 'In diesem Besuch noch keine Zeichnung.',
    heldOwn: 'Deine Zeichnungen werden noch geprüft. Danach zählen sie mit.',
    noneAll: 'Noch niemand hat eine Zeichnung benannt.',
    loading: 'Wird geladen …',
    line: 'bisher richtig vermutet',
    drawings: 'Zeichnungen',
  },
  see: {
    title: 'Was sehe ich?',
    text: 'Ich sehe 8 mal 8 Felder und wie viel Tinte in jedem ist. Diese 64 Zahlen und den Namen behalte ich und vergleiche jede neue Zeichnung damit.',
    empty: 'Zeichne etwas, um es mit meinen Augen zu sehen.',
    label: 'Deine Zeichnung, wie ich sie sehe',
  },
  keys: {
    title: 'Mit der Tastatur zeichnen',
    text: 'Setze zuerst den Fokus auf die Zeichenfläche.',
    list: [
      ['←↑↓→', 'den Stift bewegen'],
      ['Leertaste', 'den Stift aufsetzen und abheben'],
      ['Enter', 'die Vermutung bestätigen'],
      ['0–9', 'die Zeichnung mit einer Ziffer benennen'],
      ['N', 'einen Namen eingeben'],
      ['Z', 'den letzten Namen zurücknehmen'],
      ['⌫', 'den letzten Strich zurücknehmen'],
      ['Entf', 'die Zeichenfläche leeren'],
    ],
  },
};
