/* Reads the column names of a CSV file in the browser, so that the label can be selected. */

const READ_BYTES = 65_536;

/** The column names; none for other formats or unsupported compression. */
export async function readColumns(file: File): Promise<string[]> {
  const name = file.name.toLowerCase();
  if (!/\.csv(\.gz)?$/.test(name)) return [];
  const beginning = file.slice(0, READ_BYTES).stream();
  const text = await readStart(
    name.endsWith('.gz') ? beginning.pipeThrough(new DecompressionStream('gzip')) : beginning,
  );
  const line = text.split('\n', 1)[0]!.trim();
  return line === '' ? [] : parseCells(line);
}

/** Read up to the first line. A truncated compressed stream ends with an error, which is expected. */
async function readStart(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let text = '';
  try {
    while (!text.includes('\n') && text.length < READ_BYTES) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
    }
    await reader.cancel();
  } catch {
    return text;
  }
  return text;
}

/** `a,"b, c"` -> a / b, c */
export const parseCells = (line: string): string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) =>
    (quoted?.replaceAll('""', '"') ?? plain ?? '').trim(),
  );
