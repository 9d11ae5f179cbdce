import { afterEach, describe, expect, test } from 'vitest';
import * as messages from '../../src/lib/messages';
import { de } from '../../src/lib/messages/de';
import { en } from '../../src/lib/messages/en';

/** Every sentence with its path, such as ["ui.cancel", "Cancel"]; functions are left out. */
function sentencesOf(part: object, path = ''): [string, string][] {
  return Object.entries(part).flatMap(([name, value]: [string, unknown]) => {
    const at = path === '' ? name : `${path}.${name}`;
    if (typeof value === 'string') return [[at, value] as [string, string]];
    return typeof value === 'object' && value !== null ? sentencesOf(value, at) : [];
  });
}

afterEach(() => messages.loadMessages('en'));

describe('the language of the pages', () => {
  test.each([
    [['de-AT', 'en'], 'de'],
    [['fr', 'de'], 'de'],
    [['en-GB', 'de'], 'en'],
    [['fr', 'constructor'], 'en'],
    [[], 'en'],
  ])('is chosen for %j', (preferred, language) => {
    expect(messages.chooseLanguage(preferred)).toBe(language);
  });

  test('is German in everything created after German was loaded', async () => {
    await messages.loadMessages('de');
    expect(messages.t.ui.cancel).toBe('Abbrechen');
    expect(messages.language).toBe('de');
  });

  test('has no empty sentence', () => {
    for (const [path, sentence] of [...sentencesOf(en), ...sentencesOf(de)]) expect(sentence.trim(), path).not.toBe('');
  });

  test('is German in every sentence of the German messages', () => {
    const english = new Map(sentencesOf(en));
    const same = sentencesOf(de).filter(([path, sentence]) => sentence.includes(' ') && english.get(path) === sentence);
    expect(same).toEqual([]);
  });
});
