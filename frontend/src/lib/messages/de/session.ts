import type { Messages } from '../en';

export const session: Messages['session'] = {
  title: 'Anmelden',
  label: 'Schlüssel',
  what: 'Ein Schlüssel ist eine Zeile, die mit „online_“ beginnt. Die Menschen, die diesen Dienst betreiben, erstellen ihn für Sie.',
  lead: 'Geben Sie den Schlüssel ein, den Sie bekommen haben. Er schaltet frei, was Sie hier dürfen; diese Seite behält ihn nicht.',
  send: 'Anmelden',
  signedIn: 'Angemeldet',
  signedInAs: (name) => `Angemeldet als ${name}`,
  may: 'Mit diesem Schlüssel dürfen Sie:',
  signOut: 'Abmelden',
  close: 'Schließen',
  private: 'Dieser Dienst ist nicht öffentlich. Sie brauchen einen Schlüssel.',
  wrongKey: 'Dieser Schlüssel gilt nicht. Prüfen Sie, ob Zeichen fehlen; er kann auch abgelaufen sein.',
  tooMany: 'Zu viele Versuche. Versuchen Sie es später noch einmal.',
  tooManyUntil: (seconds) => `Zu viele Versuche. Versuchen Sie es in ${seconds} Sekunden noch einmal.`,
  needs: (what) => `${what}: nur mit einem Schlüssel mit dem Recht`,
  scopes: {
    predict: 'Fragen stellen',
    feedback: 'Antworten bewerten und verbessern',
    teach: 'neue Antworten hinzufügen',
    curate: 'Antworten und den Posteingang betreuen',
    operate: 'das Modell betreiben',
    erase: 'Daten von Menschen löschen',
    keys: 'Schlüssel erstellen und sperren',
    impersonate: 'für andere handeln',
  },
};
