/* SHA-256 without waiting (FIPS 180-4), for names of mappings and for checks of small files.

   `crypto.subtle` is faster, but answers later, and exists in secure contexts only.
*/

const primes: number[] = [];
for (let number = 2; primes.length < 64; number += 1) if (primes.every((prime) => number % prime)) primes.push(number);
/** The first 32 bits of the fraction. */
const fraction = (value: number) => ((value % 1) * 2 ** 32) | 0;
const ROUNDS = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));
const START = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

const rotate = (word: number, bits: number) => (word >>> bits) | (word << (32 - bits));

export function sha256(data: Uint8Array): Uint8Array<ArrayBuffer> {
  const state = Int32Array.from(START);
  const schedule = new Int32Array(64);
  const whole = data.length - (data.length % 64);
  for (let at = 0; at < whole; at += 64) compress(state, schedule, data, at);
  const rest = data.subarray(whole);
  const last = new Uint8Array(rest.length < 56 ? 64 : 128);
  last.set(rest);
  last[rest.length] = 0x80;
  const view = new DataView(last.buffer);
  view.setUint32(last.length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(last.length - 4, data.length << 3);
  for (let at = 0; at < last.length; at += 64) compress(state, schedule, last, at);
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, place) => digest.setInt32(4 * place, word));
  return new Uint8Array(digest.buffer);
}

function compress(state: Int32Array, schedule: Int32Array, data: Uint8Array, at: number): void {
  for (let place = 0; place < 16; place += 1, at += 4)
    schedule[place] = (data[at]! << 24) | (data[at + 1]! << 16) | (data[at + 2]! << 8) | data[at + 3]!;
  for (let place = 16; place < 64; place += 1) {
    const early = schedule[place - 15]!;
    const late = schedule[place - 2]!;
    const first = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
    const second = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
    schedule[place] = schedule[place - 16]! + first + schedule[place - 7]! + second;
  }
  let a = state[0]!;
  let b = state[1]!;
  let c = state[2]!;
  let d = state[3]!;
  let e = state[4]!;
  let f = state[5]!;
  let g = state[6]!;
  let h = state[7]!;
  for (let place = 0; place < 64; place += 1) {
    const mixed = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const first = (h + mixed + ((e & f) ^ (~e & g)) + ROUNDS[place]! + schedule[place]!) | 0;
    const other = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const second = (other + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  state[0]! += a;
  state[1]! += b;
  state[2]! += c;
  state[3]! += d;
  state[4]! += e;
  state[5]! += f;
  state[6]! += g;
  state[7]! += h;
}

export const toHex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
