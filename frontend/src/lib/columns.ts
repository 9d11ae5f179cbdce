/* The columns of a CSV, read from its beginning in the browser, so that the label can be chosen among them. */

const LOOKED_AT_BYTES = 65_536;

/** None where it cannot be told: it is no CSV, or packed in a way that browsers do not know. */
export async function columnsOf(file: File): Promise<string[]> {
  const name = file.name.toLowerCase();
  if (!/\.csv(\.gz)?$/.test(name)) return [];
  const beginning = file.slice(0, LOOKED_AT_BYTES).stream();
  const text = await beginningOf(name.endsWith('.gz') ? beginning.pipeThrough(new DecompressionStream('gzip')) : beginning);
  const line = text.split('\n', 1)[0]!.trim();
  return line === '' ? [] : cellsOf(line);
}

/** What is cut off ends a packed stream with an error: what came before that is enough. */
async function beginningOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let text = '';
  try {
    while (!text.includes('\n') && text.length < LOOKED_AT_BYTES) {
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
export const cellsOf = (line: string): string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) =>
    (quoted?.replaceAll('""', '"') ?? plain ?? '').trim(),
  );
