import { expect, test } from 'vitest';
import { Board, CELLS, SIDE } from '../src/lib/board.svelte';

test('keys carry a pen over the grid, and it inks where it is down', () => {
  const board = new Board();
  board.move(-1, 0);
  expect([board.cell, board.empty]).toEqual([{ column: CELLS / 2 - 1, row: CELLS / 2 }, true]);
  board.togglePen();
  board.move(0, -1);
  board.togglePen();
  board.move(5, 5);
  const cell = SIDE / CELLS;
  expect(board.strokes).toEqual([
    [
      { x: 5.5 * cell, y: 6.5 * cell },
      { x: 5.5 * cell, y: 5.5 * cell },
    ],
  ]);
});

test('the pen does not leave the board', () => {
  const board = new Board();
  for (let step = 0; step < 30; step += 1) board.move(1, -1);
  expect(board.cell).toEqual({ column: CELLS - 1, row: 0 });
});

test('the last stroke is taken back, then the one before it', () => {
  const board = new Board();
  board.begin({ x: 1, y: 1 });
  board.begin({ x: 2, y: 2 });
  board.takeBackStroke();
  expect(board.strokes).toEqual([[{ x: 1, y: 1 }]]);
  board.takeBackStroke();
  board.takeBackStroke();
  expect(board.empty).toBe(true);
});
