import { expect, test } from 'vitest';
import { findProblem, parseCells, previewLog } from '../../src/lib/reports/preview';

const csv = (text = 'size,"colour, or none",side\n1,red,left\n2,"",right\n', name = 'sides.csv') =>
  new File([text], name);

async function pack(file: File, name: string) {
  const packed = new Response(file.stream().pipeThrough(new CompressionStream('gzip')));
  return new File([await packed.arrayBuffer()], name);
}

test('a table is recognised with its columns, its first rows and their number, compressed or not', async () => {
  const preview = await previewLog(csv());
  expect(preview).toMatchObject({
    format: 'CSV',
    isTable: true,
    columns: ['size', 'colour, or none', 'side'],
    rows: [
      { cells: ['1', 'red', 'left'], problem: null },
      { cells: ['2', '', 'right'], problem: null },
    ],
    label: 'side',
    rowCount: 2,
    isExact: true,
  });
  const packed = await previewLog(await pack(csv(), 'sides.CSV.gz'));
  expect([packed.columns, packed.rows, packed.label]).toEqual([preview.columns, preview.rows, 'side']);
});

test('the label is guessed by its name, else it is the last column', async () => {
  const labelOf = async (header: string) => (await previewLog(csv(`${header}\n`))).label;
  expect(await labelOf('id,Target,size')).toBe('Target');
  expect(await labelOf('one,two,three')).toBe('three');
});

test('the rows of a long table are estimated from its beginning', async () => {
  const preview = await previewLog(csv(`a,b\n${'12,34\n'.repeat(50_000)}`));
  expect(preview.isExact).toBe(false);
  expect(Math.abs((preview.rowCount ?? 0) - 50_000)).toBeLessThan(100);
  expect(preview.rows.length).toBe(5);
});

test('examples, the log of a service and Vowpal Wabbit are recognised by their content', async () => {
  const examples = await previewLog(
    new File(['{"input": "open?", "label": "hours"}\n{"input": [1, 2], "label": 3}\n'], 'a.jsonl'),
  );
  expect([examples.format, examples.rows.map((row) => row.cells), examples.isTable]).toEqual([
    'JSON',
    [
      ['open?', 'hours'],
      ['[1,2]', '3'],
    ],
    false,
  ]);
  const header = '{"format": "online-log/2", "model": "chat", "kind": "ranker"}\n{}\n';
  expect(await previewLog(new File([header], 'chat.jsonl'))).toMatchObject({
    format: 'service',
    model: 'chat',
    kind: 'ranker',
  });
  expect((await previewLog(new File(['1 | a:2\n'], 'x.txt'))).format).toBe('Vowpal Wabbit');
});

test('what cannot be read here is said, and is no reason not to send it', async () => {
  expect(await previewLog(new File(['PAR1'], 'rows.parquet'))).toMatchObject({
    format: 'Parquet',
    isTable: true,
    columns: [],
  });
  expect(await previewLog(csv('', 'a.csv.zst'))).toMatchObject({ format: 'CSV', columns: [] });
  expect(await previewLog(new File(['no gzip'], 'a.csv.gz'))).toMatchObject({ columns: [] });
  expect((await previewLog(new File(['?'], 'a.jsonl'))).format).toBe('unknown');
  expect(parseCells('a,"say ""b""",,c')).toEqual(['a', 'say "b"', '', 'c']);
});

test('a row that a replay would refuse says why, for the column that is to be predicted', async () => {
  const table = await previewLog(csv('a,b,label\n1,2,x\n3,4\n5,,y\n6,7,z,8\n9,1,"w\n2,3,v\n'));
  const problems = (label: string) => table.rows.map((row) => findProblem(table, row, label));
  const wrong = ['too_many_cells', 'open_quote'];
  expect(problems('label')).toEqual([null, 'too_few_cells', null, ...wrong]);
  expect(problems('b')).toEqual([null, 'too_few_cells', 'no_label', ...wrong]);
  const lines = '{"input": 1, "label": "a"}\n{"input": 2}\n{"input": 3, "label": ""}\n{"inp\n';
  const examples = await previewLog(new File([lines], 'a.jsonl'));
  expect(examples.rows.map((row) => findProblem(examples, row, 'label'))).toEqual([
    null,
    'no_example',
    'no_label',
    'not_json',
  ]);
});

test('a quoted cell may have a line break, and a quote within a cell is text', async () => {
  const table = await previewLog(csv('size,label\n5" pipe,a\n"two\nlines, ""or"" more",b\n"",c\n'));
  expect(table.rows).toEqual([
    { cells: ['5" pipe', 'a'], problem: null },
    { cells: ['two\nlines, "or" more', 'b'], problem: null },
    { cells: ['', 'c'], problem: null },
  ]);
});

test.each([
  ['semicolons and decimal commas', 'size;side\n1,5;left\n2,5;right\n', 'sides.csv'],
  ['tabs', 'size\tside\n1,5\tleft\n2,5\tright\n', 'sides.tsv'],
  ['bars', 'size|side\n1,5|left\n2,5|right\n', 'sides.csv'],
  ['a first line that names them', 'sep=;\nsize;side\n1,5;left\n2,5;right\n', 'sides.csv'],
])('cells are cut where the service cuts them: %s', async (_, text, name) => {
  const table = await previewLog(csv(text, name));
  expect([table.columns, table.label, table.rowCount]).toEqual([['size', 'side'], 'side', 2]);
  expect(table.rows).toEqual([
    { cells: ['1,5', 'left'], problem: null },
    { cells: ['2,5', 'right'], problem: null },
  ]);
});

test('a table of one column has one, whatever is in its cells', async () => {
  const table = await previewLog(csv('label\nyes; no\nno\n'));
  expect([table.columns, table.rows[0]?.cells]).toEqual([['label'], ['yes; no']]);
});
