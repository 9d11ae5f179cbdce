/* The strokes of a drawing, made with a pointer or with a pen that keys move over a grid. */

import type { Point, Stroke } from './ink';

export const SIDE = 96; // units of the board's side
export const CELLS = 12; // of the grid, per side
const CELL = SIDE / CELLS;

export interface Cell {
  column: number;
  row: number;
}

const middleOf = ({ column, row }: Cell): Point => ({
  x: (column + 0.5) * CELL,
  y: (row + 0.5) * CELL,
});
const within = (place: number) => Math.max(0, Math.min(CELLS - 1, place));

export class DrawingBoard {
  strokes = $state.raw<Stroke[]>([]);
  /** Position of the pen that keys move; null until a key is pressed. */
  cell = $state.raw<Cell | null>(null);
  penDown = $state(false);
  /** Whether a pointer is drawing. */
  pointerDown = $state(false);

  lifted = $derived(!this.penDown && !this.pointerDown);
  empty = $derived(this.strokes.length === 0);

  begin(at: Point) {
    this.strokes = [...this.strokes, [at]];
  }

  extend(to: Point) {
    const stroke = this.strokes.at(-1);
    if (stroke) this.strokes = [...this.strokes.slice(0, -1), [...stroke, to]];
  }

  /** Lower or lift the pen that keys move. */
  togglePen() {
    this.cell ??= { column: CELLS / 2, row: CELLS / 2 };
    this.penDown = !this.penDown;
    if (this.penDown) this.begin(middleOf(this.cell));
  }

  move(columns: number, rows: number) {
    const { column, row } = this.cell ?? { column: CELLS / 2, row: CELLS / 2 };
    this.cell = { column: within(column + columns), row: within(row + rows) };
    if (this.penDown) this.extend(middleOf(this.cell));
  }

  removeLastStroke() {
    this.strokes = this.strokes.slice(0, -1);
    this.penDown = false;
  }

  clear() {
    this.strokes = [];
    this.penDown = false;
  }
}
