/* The strokes of drawings that were named in this browser, to show them as they were drawn.

   The service keeps 64 numbers of each drawing, which is all that it learns from. The strokes stay in this browser.
*/

import type { Point, Stroke } from './ink';

const KEY = 'online.sketches';
const MAX_SKETCHES = 150; // about 100 kB
const MAX_POINTS = 160; // of one sketch
const LEAST_STEP = 1.5; // units of the board between two points

/** The part of `localStorage` that is used. It may be missing, or refuse. */
export type Storage = Pick<globalThis.Storage, 'getItem' | 'setItem'>;

/** x and y of each point in turn. */
type Packed = number[][];

export class Sketches {
  private byId: Map<string, Packed>;

  constructor(private storage: Storage | null) {
    this.byId = new Map(this.read());
  }

  /** The strokes of a drawing, by the id of its feedback; null where it was drawn elsewhere. */
  of(id: string): Stroke[] | null {
    return this.byId.get(id)?.map(unpack) ?? null;
  }

  keep(id: string, strokes: readonly Stroke[]) {
    this.byId.set(id, strokes.map(pack));
    for (const oldest of this.byId.keys()) {
      if (this.byId.size <= MAX_SKETCHES) break;
      this.byId.delete(oldest);
    }
    this.write();
  }

  rename(id: string, newId: string) {
    const sketch = this.byId.get(id);
    if (!sketch) return;
    this.byId.set(newId, sketch);
    this.drop(id);
  }

  drop(id: string) {
    if (this.byId.delete(id)) this.write();
  }

  /** The drawings whose strokes are kept. */
  ids(): string[] {
    return [...this.byId.keys()];
  }

  private read(): [string, Packed][] {
    try {
      const stored: unknown = JSON.parse(this.storage?.getItem(KEY) ?? '[]');
      return Array.isArray(stored) ? stored.filter(isSketch) : [];
    } catch {
      return []; // storage may be switched off, or hold something else
    }
  }

  private write() {
    try {
      this.storage?.setItem(KEY, JSON.stringify([...this.byId]));
    } catch {
      // without storage, they last as long as the page
    }
  }
}

function isSketch(entry: unknown): entry is [string, Packed] {
  if (!Array.isArray(entry) || typeof entry[0] !== 'string') return false;
  const strokes: unknown = entry[1];
  const isStroke = (stroke: unknown) => Array.isArray(stroke) && stroke.every((place) => typeof place === 'number');
  return Array.isArray(strokes) && strokes.every(isStroke);
}

function pack(stroke: Stroke): number[] {
  const kept: Point[] = [];
  for (const point of stroke) {
    const last = kept.at(-1);
    if (!last || Math.hypot(point.x - last.x, point.y - last.y) >= LEAST_STEP) kept.push(point);
  }
  return kept.slice(0, MAX_POINTS).flatMap(({ x, y }) => [Math.round(x), Math.round(y)]);
}

function unpack(places: number[]): Stroke {
  const points: Point[] = [];
  for (let place = 0; place + 1 < places.length; place += 2) points.push({ x: places[place]!, y: places[place + 1]! });
  return points;
}
