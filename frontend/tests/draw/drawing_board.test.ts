import { expect, test } from 'vitest';
import { DrawingBoard, CELLS, SIDE } from '../../src/lib/draw/drawing_board.svelte';

test('keys move a pen over the grid, which draws while it is down', () => {
  const board = new DrawingBoard();
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
  const board = new DrawingBoard();
  for (let step = 0; step < 30; step += 1) board.move(1, -1);
  expect(board.cell).toEqual({ column: CELLS - 1, row: 0 });
});

test('the last stroke is removed, then the one before it', () => {
  const board = new DrawingBoard();
  board.begin({ x: 1, y: 1 });
  board.begin({ x: 2, y: 2 });
  board.removeLastStroke();
  expect(board.strokes).toEqual([[{ x: 1, y: 1 }]]);
  board.removeLastStroke();
  board.removeLastStroke();
  expect(board.empty).toBe(true);
});
