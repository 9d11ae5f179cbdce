/* Names of callers for people: "visitor:1f2e3d4c" -> "Visitor 1f2e3d". */

import { t } from '../messages';

const ID_CHARS = 6; // enough to tell visitors apart

export function nameCaller(id: string | null, self: string | null = null): string {
  const { callers } = t.inbox;
  if (id === null) return callers.unknown;
  if (id === self) return t.inbox.you;
  if (id === 'local' || id === 'admin') return callers[id];
  const [, kind, name] = /^(visitor|key|user):(.+)$/s.exec(id) ?? [];
  if (name === undefined) return id;
  if (kind === 'visitor') return callers.visitor(name.slice(0, ID_CHARS));
  return kind === 'key' ? callers.key(name) : callers.user(name);
}
