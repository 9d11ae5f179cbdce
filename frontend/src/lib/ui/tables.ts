/* Tables whose cells are texts. */

/** The title of a column, and what it holds, if that is not a short text. */
export type Column = [title: string, kind?: 'number' | 'long'];

/** heading: the column that names its row. */
export interface TextTable {
  label: string;
  columns: Column[];
  rows: string[][];
  heading?: number;
}

/** A table with a heading of its own and a note. */
export interface Details extends TextTable {
  title: string;
  note: string;
}
