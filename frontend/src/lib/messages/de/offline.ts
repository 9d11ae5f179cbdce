/* Die Seite ohne den Dienst, und was in diesem Browser wartet. */

import type { Messages } from '..';

import { plural } from '../plural';

export const offline: Messages['offline'] = {
  lost: 'Keine Verbindung zum Server.',
  answers: (version) => `Version ${version} antwortet auf diesem Gerät.`,
  simpler: 'Die Antworten sind einfacher als die des Servers.',
  noAnswers: 'Antworten gibt es erst wieder mit Verbindung.',
  keeps: 'Was Sie beibringen, wird aufgehoben und dann gesendet.',
  needsTeaching: 'Bewerten und benennen kann das nur, wer auch beibringen darf.',
  waits: (count, shown) =>
    `${shown} ${plural(count, 'Eintrag wartet', 'Einträge warten')} auf das Senden.`,
  namesWait: (count, shown) =>
    `${shown} ${plural(count, 'Name wartet', 'Namen warten')} auf das Senden.`,
  sending: (count, shown) =>
    `${shown} ${plural(count, 'Eintrag wird', 'Einträge werden')} gesendet …`,
  sent: (parts) => `Gesendet: ${parts}.`,
  learned: (shown) => `${shown} gelernt`,
  held: (shown) => `${shown} zuerst zu prüfen`,
  refusedOf: (shown) => `${shown} nicht gelernt`,
  retracted: (shown) => `${shown} zurückgenommen`,
  refused: (count, shown) =>
    `${shown} ${plural(count, 'Eintrag wurde', 'Einträge wurden')} nicht angenommen.`,
  ofOthers: (count, shown) =>
    `${shown} ${plural(count, 'Eintrag', 'Einträge')} eines anderen Kontos in diesem Browser ${plural(count, 'wartet', 'warten')}, bis sich dieses Konto anmeldet.`,
  deleteOfOthers: 'Löschen, was von einem anderen Konto wartet',
  deleteTitle: 'Einträge eines anderen Kontos löschen?',
  deleteText: (count, shown) =>
    `${shown} ${plural(count, 'Eintrag wurde', 'Einträge wurden')} noch nicht gesendet und ${plural(count, 'geht', 'gehen')} dann verloren: Niemand lernt daraus. Auch was dieser Browser sonst für dieses Konto aufhebt, wird gelöscht.`,
  deleteAction: (count, shown) => `${shown} ${plural(count, 'Eintrag', 'Einträge')} löschen`,
  deleteFailed: 'Dieser Browser hat die Einträge nicht gelöscht. Versuchen Sie es noch einmal.',
  noRoom: 'Dieser Browser hat keinen Platz für die neueste Version.',
  tooLarge: 'Die neueste Version ist zu groß für diesen Browser.',
  show: 'Zeigen, was wartet',
  hide: 'Ausblenden, was wartet',
  list: 'Was wartet',
  kinds: {
    name: (title) => `Name „${title}“`,
    good: (title) => `Gute Antwort: „${title}“`,
    wrong: (title) => `Falsche Antwort: „${title}“`,
    correction: (title) => `Bessere Antwort: „${title}“`,
    retraction: (title) => `„${title}“ zurücknehmen`,
  },
  notAccepted: (reason) => `Nicht angenommen: ${reason}`,
  remove: (what) => `Entfernen: ${what}`,
  edit: (what) => `Ändern und noch einmal senden: ${what}`,
  newText: 'Neuer Text',
  send: 'Senden',
  signOutTitle: 'Abmelden, obwohl etwas wartet?',
  signOutText: (count, shown) =>
    `${shown} ${plural(count, 'Eintrag wurde', 'Einträge wurden')} noch nicht gesendet. Beim Abmelden ${plural(count, 'wird er', 'werden sie')} in diesem Browser gelöscht.`,
  signOutAction: 'Abmelden und löschen',
  better: {
    title: 'Antworten ohne Verbindung',
    text: 'Ohne den Server vergleicht dieser Browser nur Wörter. Mit einem Text-Encoder findet er die richtige Antwort auch auf eine anders formulierte Frage.',
    switch: 'Fragen auf diesem Gerät nach ihrer Bedeutung lesen',
    size: (shown) => `Lädt einmal ${shown} herunter.`,
    kept: (shown) =>
      `${shown} bleiben in diesem Browser, bis Sie es ausschalten oder sich abmelden.`,
    until: 'Der Encoder bleibt in diesem Browser, bis Sie es ausschalten oder sich abmelden.',
    downloading: (done, total) => `Wird heruntergeladen: ${done} von ${total}`,
    starting: 'Der Encoder wird gestartet …',
    reading: (done, total) => `Bekannte Fragen werden gelesen: ${done} von ${total}`,
    ready: 'Bereit. Ohne Verbindung werden Fragen nach ihrer Bedeutung gelesen.',
    removing: 'Der Encoder wird gelöscht …',
    progress: 'Fortschritt',
    offline: 'Er kann heruntergeladen werden, sobald die Verbindung wieder da ist.',
    again: 'Erneut versuchen',
    problems: {
      lost: 'Die Verbindung ist abgebrochen. Das Herunterladen geht weiter, sobald sie wieder da ist.',
      damaged: 'Eine Datei kam beschädigt an und wurde gelöscht.',
      no_room:
        'Dieser Browser hat keinen Platz dafür. Schaffen Sie Platz, oder schalten Sie es wieder aus.',
      not_allowed:
        'Sie dürfen den Text-Encoder nicht laden. Melden Sie sich an, oder fragen Sie den Betreiber.',
      too_large: 'Der Text-Encoder ist zu groß für diesen Browser.',
      failed: 'Der Text-Encoder kann in diesem Browser jetzt nicht verwendet werden.',
    },
  },
};
