/* Converts strokes to the 64 features of scikit-learn's digits, computed as for the scanned forms of NIST.

   strokes --fit--> 20 x 32 of a 32 x 32 bitmap --ink--> black pixels in each 4 x 4 block: 8 x 8 numbers, 0 to 16

   A drawing of any size and at any place is stretched to fill the box in the middle of the bitmap. The pen is made
   so wide that the drawing is as black as the digits of that data: 312 of 1,024 pixels on average.
*/

export interface Point {
  x: number;
  y: number;
}

export type Stroke = readonly Point[];

/** The path of a stroke, for an SVG. A point becomes a dot. */
export const pathOf = ([first, ...rest]: Stroke) =>
  first ? `M${first.x} ${first.y}${rest.map(({ x, y }) => `L${x} ${y}`).join('') || 'h0.01'}` : '';

const SIDE = 32; // pixels of the bitmap
const BOX_WIDTH = 20; // a digit fills this width and the whole height
const BLACK = 312; // pixels
const BLOCK = 4;
const MAX_WIDENING = 1.25; // horizontal over vertical scaling, at most: a 1 stays slim
const MAX_RAISING = 2; // vertical over horizontal scaling, at most: a dash stays flat
const THINNEST = 0.75; // radius of the pen, in pixels
const THICKEST = 10;
const TRIALS = 7;
const MAX_POINTS = 200; // of a drawing; of more, some are skipped

interface Segment {
  from: Point;
  to: Point;
}

/** 64 numbers in row order, each 0 to 16; null for an empty drawing. */
export function computeFeatures(strokes: readonly Stroke[]): number[] | null {
  const segments = splitSegments(strokes);
  return segments.length === 0 ? null : sumBlocks(inkBitmap(segments));
}

/** A bitmap of 32 x 32 pixels in row order, 1 for black. */
function inkBitmap(segments: Segment[]): Uint8Array {
  let [thin, thick] = [THINNEST, THICKEST];
  let best = raster(segments, thin);
  for (let trial = 0; trial < TRIALS; trial += 1) {
    const radius = (thin + thick) / 2;
    const bitmap = raster(segments, radius);
    if (Math.abs(countBlack(bitmap) - BLACK) < Math.abs(countBlack(best) - BLACK)) best = bitmap;
    if (countBlack(bitmap) < BLACK) thin = radius;
    else thick = radius;
  }
  return best;
}

function splitSegments(strokes: readonly Stroke[]): Segment[] {
  const count = strokes.reduce((sum, stroke) => sum + stroke.length, 0);
  const step = Math.ceil(count / MAX_POINTS);
  return strokes.flatMap((stroke) => {
    const kept = stroke.filter((_, place) => place % step === 0 || place === stroke.length - 1);
    return kept.map((to, place) => ({ from: kept[place - 1] ?? to, to })).slice(kept.length > 1 ? 1 : 0);
  });
}

function raster(segments: Segment[], radius: number): Uint8Array {
  const place = fitToBox(segments, BOX_WIDTH - 2 * radius, SIDE - 2 * radius);
  const bitmap = new Uint8Array(SIDE * SIDE);
  for (const { from, to } of segments) draw(bitmap, { from: place(from), to: place(to) }, radius);
  return bitmap;
}

/** Map points of the drawing into the bitmap, so that the drawing fills `width` x `height` at its center. */
function fitToBox(segments: Segment[], width: number, height: number): (point: Point) => Point {
  const points = segments.flatMap(({ from, to }) => [from, to]);
  const [left, right] = [Math.min(...points.map(({ x }) => x)), Math.max(...points.map(({ x }) => x))];
  const [top, bottom] = [Math.min(...points.map(({ y }) => y)), Math.max(...points.map(({ y }) => y))];
  const across = Math.max(0, width) / (right - left);
  const down = Math.max(0, height) / (bottom - top);
  const scaleX = finite(Math.min(across, MAX_WIDENING * down));
  const scaleY = finite(Math.min(down, MAX_RAISING * across));
  const middle = { x: (left + right) / 2, y: (top + bottom) / 2 };
  return ({ x, y }) => ({
    x: SIDE / 2 + (x - middle.x) * scaleX,
    y: SIDE / 2 + (y - middle.y) * scaleY,
  });
}

/** A dot has no size to scale. */
const finite = (scale: number) => (Number.isFinite(scale) ? scale : 0);

function draw(bitmap: Uint8Array, { from, to }: Segment, radius: number) {
  const within = (pixel: number) => Math.max(0, Math.min(SIDE - 1, Math.floor(pixel)));
  const [bottom, right] = [within(Math.max(from.y, to.y) + radius), within(Math.max(from.x, to.x) + radius)];
  const firstX = within(Math.min(from.x, to.x) - radius);
  for (let y = within(Math.min(from.y, to.y) - radius); y <= bottom; y += 1)
    for (let x = firstX; x <= right; x += 1)
      if (distance({ x: x + 0.5, y: y + 0.5 }, from, to) <= radius) bitmap[y * SIDE + x] = 1;
}

function distance(point: Point, from: Point, to: Point): number {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const squared = dx * dx + dy * dy;
  const along = squared === 0 ? 0 : ((point.x - from.x) * dx + (point.y - from.y) * dy) / squared;
  const share = Math.max(0, Math.min(1, along));
  return Math.hypot(point.x - from.x - share * dx, point.y - from.y - share * dy);
}

const countBlack = (bitmap: Uint8Array) => bitmap.reduce((sum, pixel) => sum + pixel, 0);

function sumBlocks(bitmap: Uint8Array): number[] {
  const side = SIDE / BLOCK;
  const blocks = new Array<number>(side * side).fill(0);
  bitmap.forEach((pixel, place) => {
    const row = Math.floor(Math.floor(place / SIDE) / BLOCK);
    const column = Math.floor((place % SIDE) / BLOCK);
    blocks[row * side + column]! += pixel;
  });
  return blocks;
}
