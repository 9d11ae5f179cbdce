/* Random ids: of this browser, which is the user's name where the service lets the page name one, and of feedback. */

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
    return key; // without storage, the key lasts as long as the page
  }
}
