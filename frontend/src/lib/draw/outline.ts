/* Turns the 64 features of a drawing back into a shape that looks like ink.

   8 x 8 numbers, 0 to 16 --Catmull-Rom--> a finer grid --marching squares--> one closed path per blot

   The features are all that the service keeps of a drawing. Shown as 64 squares they are hard to recognise.
*/

const SIDE = 8; // of the features
const FINER = 3; // samples per feature
const INK = 7.5; // of 16: where the outline runs
export const OUTLINE_SIDE = SIDE * FINER; // the path lies within a square of this side

/** The path of an SVG; "" for a blank drawing. */
export function outlineOf(features: readonly number[]): string {
  return tracePaths(segmentsOf(refine(features)));
}

const isInside = (place: number, side: number) => place >= 0 && place < side;

/** [side x side] samples, with a blank margin around them so that every outline closes. */
function refine(features: readonly number[]): (column: number, row: number) => number {
  const at = (column: number, row: number) =>
    isInside(column, SIDE) && isInside(row, SIDE) ? (features[row * SIDE + column] ?? 0) : 0;
  const across = (place: number, read: (cell: number) => number) => {
    const exact = (place + 0.5) / FINER - 0.5;
    const cell = Math.floor(exact);
    const [before, from, to, after] = [-1, 0, 1, 2].map((step) => read(cell + step)) as Four;
    return catmullRom(before, from, to, after, exact - cell);
  };
  const samples: number[] = [];
  for (let row = 0; row < OUTLINE_SIDE; row += 1)
    for (let column = 0; column < OUTLINE_SIDE; column += 1)
      samples.push(across(row, (y) => across(column, (x) => at(x, y))));
  return (column, row) =>
    isInside(column, OUTLINE_SIDE) && isInside(row, OUTLINE_SIDE)
      ? samples[row * OUTLINE_SIDE + column]!
      : 0;
}

type Four = [number, number, number, number];

function catmullRom(p0: number, p1: number, p2: number, p3: number, t: number): number {
  const [a, b, c] = [p3 - 3 * p2 + 3 * p1 - p0, 2 * p0 - 5 * p1 + 4 * p2 - p3, p2 - p0];
  return p1 + 0.5 * t * (c + t * (b + t * a));
}

interface Segment {
  /** The edges of the grid where it begins and ends. */
  from: string;
  to: string;
  /** Where it begins. */
  x: number;
  y: number;
}

type Edge = 'top' | 'right' | 'bottom' | 'left';

/** The cuts of a cell whose corners (top left 8, top right 4, bottom right 2, bottom left 1) are ink; ink is at the right hand. */
const CUTS: Record<number, [Edge, Edge][]> = {
  1: [['left', 'bottom']],
  2: [['bottom', 'right']],
  3: [['left', 'right']],
  4: [['right', 'top']],
  5: [
    ['left', 'top'],
    ['right', 'bottom'],
  ],
  6: [['bottom', 'top']],
  7: [['left', 'top']],
  8: [['top', 'left']],
  9: [['top', 'bottom']],
  10: [
    ['top', 'right'],
    ['bottom', 'left'],
  ],
  11: [['top', 'right']],
  12: [['right', 'left']],
  13: [['right', 'bottom']],
  14: [['bottom', 'left']],
};

function segmentsOf(sample: (column: number, row: number) => number): Map<string, Segment> {
  const segments = new Map<string, Segment>();
  for (let row = -1; row < OUTLINE_SIDE; row += 1)
    for (let column = -1; column < OUTLINE_SIDE; column += 1) {
      const [topLeft, topRight] = [sample(column, row), sample(column + 1, row)];
      const [bottomLeft, bottomRight] = [sample(column, row + 1), sample(column + 1, row + 1)];
      const corners = [topLeft, topRight, bottomRight, bottomLeft];
      const kind = corners.reduce((bits, value) => 2 * bits + Number(value > INK), 0);
      const crossing = (from: number, to: number) => (INK - from) / (to - from);
      const edges: Record<Edge, () => Omit<Segment, 'to'>> = {
        top: () => ({
          from: `h${column},${row}`,
          x: column + crossing(topLeft, topRight),
          y: row,
        }),
        bottom: () => ({
          from: `h${column},${row + 1}`,
          x: column + crossing(bottomLeft, bottomRight),
          y: row + 1,
        }),
        left: () => ({
          from: `v${column},${row}`,
          x: column,
          y: row + crossing(topLeft, bottomLeft),
        }),
        right: () => ({
          from: `v${column + 1},${row}`,
          x: column + 1,
          y: row + crossing(topRight, bottomRight),
        }),
      };
      for (const [begin, end] of CUTS[kind] ?? []) {
        const segment = { ...edges[begin](), to: edges[end]().from };
        segments.set(segment.from, segment);
      }
    }
  return segments;
}

/** Follow the segments around each blot. */
function tracePaths(segments: Map<string, Segment>): string {
  const paths: string[] = [];
  const round = (place: number) => String(Number((place + 0.5).toFixed(2)));
  while (segments.size > 0) {
    const points: string[] = [];
    let [next] = segments.values();
    while (next) {
      segments.delete(next.from);
      points.push(`${round(next.x)} ${round(next.y)}`);
      next = segments.get(next.to);
    }
    paths.push(`M${points.join('L')}Z`);
  }
  return paths.join('');
}
