import { parse } from 'svelte/compiler';
import { expect, test } from 'vitest';

const SOURCES = import.meta.glob<string>('../../src/**/*.svelte', {
  ...{ query: '?raw', import: 'default', eager: true },
});
/** Attributes and properties of components whose values people see or hear. */
const SPOKEN = new Set([
  ...['aria-label', 'aria-description', 'aria-roledescription', 'aria-valuetext'],
  ...['placeholder', 'title', 'alt', 'label', 'what', 'lead', 'hint', 'text', 'summary'],
]);
const SENTENCE = /\p{Script=Latin}{2,}[^\p{L}\s]*\s+[^\p{L}\s]*\p{Script=Latin}{2,}/u; // two words at least
interface Node {
  type: string;
  [field: string]: unknown;
}
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value;

/** The texts of a part of a component, also those in its expressions. Samples of code are the same in every language. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (!isNode(value)) return [];
  if (value.type === 'Attribute' && !SPOKEN.has(String(value['name']))) return [];
  if (value.type === 'RegularElement' && value['name'] === 'code') return [];
  if (value.type === 'Text') return [String(value['data'])];
  if (value.type === 'Literal') return [String(value['value'])];
  if (value.type === 'TemplateElement') return [(value['value'] as { raw: string }).raw];
  return Object.values(value).flatMap(textsOf);
}

const SCRIPTS_AND_STYLES = /<(script|style)\b[\s\S]*?<\/\1>/g; // left out, because parsing them takes long
const hardCodedIn = (source: string) =>
  textsOf(parse(`<script lang="ts"></script>${source.replace(SCRIPTS_AND_STYLES, '')}`, { modern: true }).fragment)
    .map((text) => text.replace(/\s+/g, ' ').trim())
    .filter((text) => SENTENCE.test(text));

test('a hard-coded sentence is noticed', () => {
  for (const source of [
    '<p>Sign in first</p>',
    '<button aria-label="Close this">×</button>',
    '<Page lead="Ask it anything" />',
    "<p>{open ? 'Show fewer' : 'Show all'}</p>",
    '<p>{`Skip ${n} invalid lines`}</p>',
  ])
    expect(hardCodedIn(source), source).not.toEqual([]);
  for (const source of [
    '<p class="quiet more">{t.ui.cancel}</p>',
    '<code>[[models]] name = "chat"</code>',
    '<section aria-labelledby="replies-title">{a} · {b} ms</section>',
  ])
    expect(hardCodedIn(source), source).toEqual([]);
});

test('every sentence of a component comes from the messages', { timeout: 60_000 }, () => {
  const found = Object.entries(SOURCES).flatMap(([file, source]) =>
    hardCodedIn(source).map((text) => `${file}: ${text}`),
  );
  expect(Object.keys(SOURCES).length).toBeGreaterThan(50);
  expect(found).toEqual([]);
});
