/* Shamir's secret sharing (1979): any `threshold` shares of a secret give it back, fewer say nothing about it.

   f(x) = secret + a_1 x + ... + a_(t-1) x^(t-1)  modulo a prime      share of holder x: f(x), x > 0

   A member splits secrets only; the service puts the shares together. Shares are those of `packages/online-federated/online_federated/secure_aggregation/shamir.py`.
*/

import type { Bytes, RandomBytes } from './primitives.js';

export const SHARE_BYTES = 33;
const PRIME = 2n ** 256n + 297n; // the smallest prime above every secret of 32 bytes

/** The shares of the holders 1 to `count`, in this order. */
export function splitSecret(secret: Bytes, threshold: number, count: number, random: RandomBytes): Bytes[] {
  const coefficients = [toNumber(secret)];
  while (coefficients.length < threshold) coefficients.push(drawBelowPrime(random));
  return Array.from({ length: count }, (_, place) => toBytes(evaluate(coefficients, BigInt(place + 1))));
}

/** A uniform number of the field: 64 random bits more than it has make the bias of the remainder negligible. */
const drawBelowPrime = (random: RandomBytes) => toNumber(random(SHARE_BYTES + 8)) % PRIME;

/** The value of a polynomial (Horner's scheme). coefficients: the constant one first. */
const evaluate = (coefficients: readonly bigint[], x: bigint) =>
  coefficients.reduceRight((value, coefficient) => (value * x + coefficient) % PRIME, 0n);

const toNumber = (bytes: Bytes) => BigInt(`0x${hexOf(bytes)}`);

const hexOf = (bytes: Bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

function toBytes(value: bigint): Bytes {
  const hex = value.toString(16).padStart(2 * SHARE_BYTES, '0');
  return Uint8Array.from({ length: SHARE_BYTES }, (_, at) => Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16));
}
