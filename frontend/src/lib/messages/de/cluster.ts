import type { Messages } from '../en';

import { plural } from '../plural';

export const cluster: Messages['cluster'] = {
  title: 'Cluster',
  lead: 'Die Replikate dieses Dienstes, was jedes gelernt hat, und ob alle dasselbe Modell haben.',
  needs: 'Die Replikate und ihr Zustand',
  single: 'Ein einzelner Dienst',
  singleNote:
    'Dieser Dienst hält seine Daten in SQLite auf einer Maschine, also gibt es keine anderen Replikate. Für mehrere teilen sich alle eine Postgres-Datenbank: die Einstellung',
  summary: (present, different) => {
    if (present === 0) return 'Kein Replikat ist da.';
    const who = `${present} ${plural(present, 'Replikat ist', 'Replikate sind')} da`;
    if (different > 0)
      return `${who}. ${plural(different, 'Eines hat', `${different} haben`)} ein anderes Modell als das veröffentlichte.`;
    return present === 1 ? `${who}.` : `${who}, und alle haben das veröffentlichte Modell.`;
  },
  absent: (count) => plural(count, 'Eines fehlt.', `${count} fehlen.`),
  answers: 'Was antwortet',
  replicas: 'Replikate',
  models: 'Modelle auf jedem Replikat',
  replica: 'Replikat',
  condition: 'Zustand',
  seen: 'Zuletzt gesehen',
  release: 'Ausgabe',
  disk: 'Freier Platz',
  clock: 'Uhr',
  clockHint: 'Seine Uhr minus die der Datenbank. Was gelernt wird, hängt nicht davon ab.',
  address: 'Adresse',
  model: 'Modell',
  version: 'Version',
  log: 'Log',
  learned: 'Gelernt bis',
  publishedBy: 'Veröffentlicht von',
  lag: 'Ereignisse zurück',
  hash: 'Prüfsumme',
  same: 'wie veröffentlicht',
  other: 'anders als die veröffentlichte',
  unknown: 'nicht bekannt',
  frozen: 'angehalten',
  none: 'noch keine',
  conditions: {
    current: 'Aktuell',
    behind: 'Holt auf',
    idle: 'Lernt nicht',
    absent: 'Fehlt',
    differs: 'Anderes Modell',
    diverged: 'Abgewichen',
  },
  hints: {
    current: 'Es hat das Log gelernt und antwortet mit dem veröffentlichten Modell.',
    behind: 'Es lernt nach, was ihm fehlt.',
    idle: 'Sein Lerner läuft nicht. Es antwortet mit dem, was andere veröffentlichen.',
    absent: 'Es hat sich seit fünf Sekunden nicht gemeldet: Es läuft nicht, oder es erreicht die Datenbank nicht.',
    differs: 'Seine Version ist nicht die, die unter dieser Nummer veröffentlicht wurde.',
    diverged:
      'Es hat aus demselben Log einen anderen Zustand gelernt, wie auf einem anderen Prozessor oder mit einer anderen Software. Es übernimmt, was andere veröffentlichen.',
  },
  roles: {
    learns: 'lernt',
    'stands by': 'steht bereit',
    diverged: 'abgewichen',
    'does not learn': 'lernt nicht',
  },
  learner: 'Lerner',
  doctor: 'Was zu tun ist, sagt',
};
