import { expect, test } from 'vitest';
import ts from 'typescript';

const FILES: Record<string, string> = import.meta.glob(
  ['../{src,widget,packages}/**/*.{ts,svelte}', '!../packages/*/dist/**'],
  { query: '?raw', import: 'default', eager: true },
);

/** The files that a file imports: types, and what it loads later, as well. */
function importsOf(file: string, source: string): string[] {
  const scripts = [...source.matchAll(/<script[^>]*>(.*?)<\/script>/gs)].map(([, script]) => script);
  const code = file.endsWith('.svelte') ? scripts.join('\n') : source;
  return ts.preProcessFile(code).importedFiles.flatMap(({ fileName }) => {
    const path = new URL(fileName, `file:///tests/${file}`).pathname.replace('/', '../');
    return [path, `${path}.ts`, `${path}/index.ts`].filter((name) => name in FILES);
  });
}

const imports = new Map(Object.entries(FILES).map(([file, source]) => [file, importsOf(file, source)]));

/** The first circle that a walk from a file finds, such as a -> b -> a. done: files that are known to be in none. */
function circleFrom(file: string, done: Set<string>, path: string[] = []): string[] | null {
  if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
  if (done.has(file)) return null;
  for (const imported of imports.get(file)!) {
    const circle = circleFrom(imported, done, [...path, file]);
    if (circle) return circle;
  }
  done.add(file);
  return null;
}

test('no file imports itself, over others', () => {
  expect(imports.get('../src/main.ts')).toContain('../src/lib/api/chat.ts');
  const done = new Set<string>();
  for (const file of imports.keys()) expect(circleFrom(file, done)?.join(' -> ') ?? null).toBeNull();
});
