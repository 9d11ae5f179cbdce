/* What is drawn: strokes by a pointer, or by a pen that keys carry from cell to cell of a grid. */

import type { Point, Stroke } from './ink';

export const SIDE = 96; // units of the board
export const CELLS = 12; // of the grid, each way
const CELL = SIDE / CELLS;

export interface Cell {
  column: number;
  row: number;
}

const middleOf = ({ column, row }: Cell): Point => ({ x: (column + 0.5) * CELL, y: (row + 0.5) * CELL });
const within = (place: number) => Math.max(0, Math.min(CELLS - 1, place));

export class Board {
  strokes = $state.raw<Stroke[]>([]);
  /** Where the keys' pen is; null until one is pressed. */
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

  /** The keys' pen goes down where it is, or up. */
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

  takeBackStroke() {
    this.strokes = this.strokes.slice(0, -1);
    this.penDown = false;
  }

  clear() {
    this.strokes = [];
    this.penDown = false;
  }
}
