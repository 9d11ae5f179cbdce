/* Who is talking: a random key that stays in this browser, which names nobody; an operator's key, while the tab is open. */

const KEY = 'online.user';

/** A version-4 UUID. `crypto.randomUUID` would do, but browsers offer it over https and localhost only. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

export function browserKey(): string {
  const key = newId();
  try {
    const known = localStorage.getItem(KEY);
    if (known === null) localStorage.setItem(KEY, key);
    return known ?? key;
  } catch {
    return key; // storage may be forbidden; then the key lives as long as the page
  }
}

export const ADMIN_KEY = 'online.admin-key';

/** Where a key may stay while the tab is open. */
export type Keys = Pick<Storage, 'getItem' | 'setItem'>;

/** The tab's own; null where the browser forbids it. */
export function tabKeys(): Keys | null {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

export function knownKey(keys: Keys | null): string | null {
  try {
    return keys?.getItem(ADMIN_KEY) ?? null;
  } catch {
    return null;
  }
}
