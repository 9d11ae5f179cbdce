import { ui } from './ui';
import { session } from './session';
import { chat } from './chat';
import { repertoire } from './repertoire';
import { inbox } from './inbox';
import { learning } from './learning';
import { reports } from './reports';
import { draw } from './draw';
import { offline } from './offline';
import { usage } from './usage';
import { cluster } from './cluster';
import { routes } from './routes';

export type Messages = typeof en;

export const en = {
  ui,
  session,
  chat,
  repertoire,
  inbox,
  learning,
  reports,
  draw,
  offline,
  usage,
  cluster,
  routes,
};
