/* The cryptography, all of it from WebCrypto: X25519, HKDF-SHA256, AES-256-GCM, SHA-256, and AES-256-CTR as generator.

   The bytes are those of `packages/online-federated/online_federated/secure_aggregation/primitives.py`.
*/

import { AggregationFailed } from './errors.js';

export type Bytes = Uint8Array<ArrayBuffer>;
/** Returns so many random bytes of a cryptographic source. */
export type RandomBytes = (count: number) => Bytes;

export const KEY_BYTES = 32; // of private and public keys, seeds and commitments
const KEY_BITS = 8 * KEY_BYTES;
const NONCE = new Uint8Array(12); // every key seals one message only
const COUNTER = new Uint8Array(16); // every seed is expanded once
/** What comes before the 32 bytes of a private key of X25519 in PKCS #8 (RFC 8410). */
const PKCS8 = Uint8Array.of(48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 110, 4, 34, 4, 32);
const NEEDED = 'Chromium 133, Firefox 130, Safari 17 or Node 20.19, or a later one';

export const drawRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));

/** Raises AggregationFailed where WebCrypto, or X25519 in it, does not exist. */
export async function checkSupport(): Promise<void> {
  const subtle = (globalThis.crypto as Crypto | undefined)?.subtle;
  if (!subtle)
    throw new AggregationFailed('crypto.subtle does not exist here: open the page over https or on localhost');
  try {
    await subtle.generateKey('X25519', false, ['deriveBits']);
  } catch {
    throw new AggregationFailed(`crypto.subtle has no X25519 here: use ${NEEDED}`);
  }
}

/** A private key of X25519, with the public one. */
export class KeyPair {
  private constructor(
    private readonly key: CryptoKey,
    readonly publicKey: Bytes,
  ) {}

  static async read(secret: Bytes): Promise<KeyPair> {
    const encoded = concatenate(PKCS8, secret);
    const key = await crypto.subtle.importKey('pkcs8', encoded, 'X25519', true, ['deriveBits']);
    const { x } = await crypto.subtle.exportKey('jwk', key);
    return new KeyPair(key, fromBase64(x!.replaceAll('-', '+').replaceAll('_', '/')));
  }

  /** The key of 32 bytes that two holders of keys share for a purpose. */
  async agree(publicKey: Bytes, purpose: Bytes): Promise<Bytes> {
    const shared = await this.exchange(publicKey);
    const key = await crypto.subtle.importKey('raw', shared, 'HKDF', false, ['deriveBits']);
    const derivation = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: purpose };
    return new Uint8Array(await crypto.subtle.deriveBits(derivation, key, KEY_BITS));
  }

  private async exchange(publicKey: Bytes): Promise<ArrayBuffer> {
    try {
      const other = await crypto.subtle.importKey('raw', publicKey, 'X25519', false, []);
      return await crypto.subtle.deriveBits({ name: 'X25519', public: other }, this.key, KEY_BITS);
    } catch {
      throw new AggregationFailed('a public key is invalid: of another length, or of small order');
    }
  }
}

/** Encrypt and authenticate. key: of this one message. context: is authenticated, too. */
export async function seal(key: Bytes, message: Bytes, context: Bytes): Promise<Bytes> {
  const own = await crypto.subtle.importKey('raw', key, 'AES-GCM', false, ['encrypt']);
  const parameters = { name: 'AES-GCM', iv: NONCE, additionalData: context };
  return new Uint8Array(await crypto.subtle.encrypt(parameters, own, message));
}

/** Refuses what was not sealed with this key and context. */
export async function unseal(key: Bytes, sealed: Bytes, context: Bytes): Promise<Bytes> {
  const own = await crypto.subtle.importKey('raw', key, 'AES-GCM', false, ['decrypt']);
  try {
    const parameters = { name: 'AES-GCM', iv: NONCE, additionalData: context };
    return new Uint8Array(await crypto.subtle.decrypt(parameters, own, sealed));
  } catch {
    throw new AggregationFailed('a sealed share was changed on its way');
  }
}

/** `count` pseudo-random numbers of 64 bits, as two words each, the lower one first. */
export async function expand(seed: Bytes, count: number): Promise<Uint32Array<ArrayBuffer>> {
  const key = await crypto.subtle.importKey('raw', seed, 'AES-CTR', false, ['encrypt']);
  const parameters = { name: 'AES-CTR', counter: COUNTER, length: 128 };
  const stream = await crypto.subtle.encrypt(parameters, key, new Uint8Array(8 * count));
  return new Uint32Array(stream); // little-endian, as every platform of a browser is
}

/** What shows later that a seed is the same one. It hides the seed, which is uniform. */
export async function commit(seed: Bytes): Promise<Bytes> {
  const named = concatenate(encodeText('online secure aggregation seed'), seed);
  return new Uint8Array(await crypto.subtle.digest('SHA-256', named));
}

export const encodeText = (text: string): Bytes => new TextEncoder().encode(text);

export const fromBase64 = (text: string): Bytes => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

export function toBase64(bytes: Bytes): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export function concatenate(...parts: readonly Bytes[]): Bytes {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
