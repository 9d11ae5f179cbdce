/* The fixed mapping from numbers to int8 features, the same as in the service.

   x -> q = clip(rint(x * 2^exponent) - centre, -127, 127), and for short vectors three bumps, which let a linear model bend

   rint rounds halves to even. A product with a power of two is exact, so that q is the same everywhere.
*/

import { LearnerError } from './errors.js';
import { sha256, toHex } from './sha256.js';

/** Name, whether it is a number, exponent and centre. */
export type Column = readonly [name: string, number: true, exponent: number, centre: number];

const BUMPS_UP_TO = 64; // numbers of a vector
const KNOTS = [-96, 0, 96]; // centres of the bumps, which are 96 wide to each side
const LARGEST_EXPONENT = 1023;
const LEAST_EXPONENT = -1022; // a power of two is a normal float64 between these

export class Columns {
  readonly bumps: boolean;
  /** One per feature, with its scale. */
  readonly names: readonly string[];
  private powers: Float64Array;

  constructor(readonly columns: readonly Column[]) {
    this.bumps = columns.length <= BUMPS_UP_TO;
    const parts = ['', ...(this.bumps ? KNOTS.map((knot) => `~${knot}`) : [])];
    this.names = columns.flatMap(([name, , exponent, centre]) =>
      parts.map((part) => `${name}${part} ${exponent} ${centre}`),
    );
    this.powers = Float64Array.from(columns, ([, , exponent]) => powerOfTwo(exponent));
  }

  /** The columns of vectors whose numbers lie in [-scale, scale]. */
  static withScale(size: number, scale: number): Columns {
    const exponent = Math.floor(Math.log2(127 / scale));
    return Columns.parse(
      Array.from({ length: size }, (_, at) => [`${at}`, true, exponent, 0]),
      size,
    );
  }

  /** Check columns that were read from a file. */
  static parse(entries: unknown, size: number): Columns {
    if (!Array.isArray(entries) || entries.length !== size || !entries.every(isColumn))
      throw new LearnerError(`the file must describe the ${size} numbers of a vector in order`);
    return new Columns(entries);
  }

  /** Features of a vector, int8. */
  read(values: ArrayLike<number>): Int8Array {
    const features = new Int8Array(this.names.length);
    let at = 0;
    for (let place = 0; place < this.columns.length; place += 1) {
      const steps = roundHalfEven(values[place]! * this.powers[place]!) - this.columns[place]![3];
      const q = Math.min(Math.max(steps, -127), 127);
      features[at++] = q;
      if (this.bumps)
        for (const knot of KNOTS) features[at++] = Math.max(Math.floor((127 * (96 - Math.abs(q - knot))) / 96), 0);
    }
    return features;
  }

  /** The name of this mapping in the service. */
  get epoch(): string {
    const known = this.columns.map(([name, , exponent, centre]) => `["${name}", true, ${exponent}, ${centre}]`).sort();
    const text = `[[${known.join(', ')}], ${this.bumps}]`;
    return `vector-${toHex(sha256(new TextEncoder().encode(text))).slice(0, 12)}`;
  }
}

function isColumn(entry: unknown, place: number): entry is Column {
  if (!Array.isArray(entry) || entry.length !== 4) return false;
  const [name, isNumber, exponent, centre] = entry as unknown[];
  return (
    name === `${place}` &&
    isNumber === true &&
    Number.isSafeInteger(centre) &&
    Number.isInteger(exponent) &&
    LEAST_EXPONENT <= (exponent as number) &&
    (exponent as number) <= LARGEST_EXPONENT
  );
}

/** 2^exponent by its bits: a function of the language may round. */
function powerOfTwo(exponent: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setUint32(0, (exponent + LARGEST_EXPONENT) << 20);
  return view.getFloat64(0);
}

/** The nearest integer; of two, the even one. */
export function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest < 0.5 || (rest === 0.5 && below % 2 === 0)) return below;
  return Number.isFinite(value) ? below + 1 : value;
}
