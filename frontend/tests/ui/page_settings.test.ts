import { expect, test } from 'vitest';
import { applyColors, DEFAULTS, pageSettings, readPageSettings, textsIn } from '../../src/lib/ui/page_settings';

const BLOCK = {
  name: 'Harbour </script> Library',
  logo: 'page-logo',
  greeting: 'Ahoy!',
  intro: '',
  color: '#ffcc00',
  suggestions: ['When are you open?'],
  language: 'en',
  translations: {},
  accent_light: '#786000',
  accent_dark: '#ffcc00',
  on_accent_light: '#ffffff',
  on_accent_dark: '#0b1f18',
};

test('the block of the server is read, and its logo is below the path of the page', () => {
  const escaped = JSON.stringify(BLOCK).replaceAll('<', '\\u003c');
  expect(readPageSettings(escaped, '/tools/online/')).toEqual({
    ...BLOCK,
    logo: '/tools/online/page-logo',
  });
});

test('without the block, and for what it lacks, there are defaults', () => {
  expect(pageSettings).toEqual(DEFAULTS);
  expect(readPageSettings('{"name": "Bot"}', '/')).toEqual({ ...DEFAULTS, name: 'Bot' });
});

test('a configured color sets the accent of both modes', () => {
  const set = new Map<string, string | null>();
  const style = { setProperty: (name: string, value: string | null) => void set.set(name, value) };
  applyColors(DEFAULTS, style);
  expect(set.size).toBe(0);
  applyColors({ ...DEFAULTS, ...BLOCK }, style);
  expect(Object.fromEntries(set)).toEqual({
    '--accent-light': '#786000',
    '--accent-dark': '#ffcc00',
    '--on-accent-light': '#ffffff',
    '--on-accent-dark': '#0b1f18',
  });
});

test('a text is in the language of the pages where it is translated, and says its language where it is not', () => {
  const settings = {
    ...DEFAULTS,
    ...BLOCK,
    intro: 'Ask about tickets.',
    translations: { de: { greeting: 'Moin!', intro: '' } },
  };
  expect(textsIn(settings, 'en').greeting).toEqual({ text: 'Ahoy!', lang: undefined });
  expect(textsIn(settings, 'de')).toEqual({
    greeting: { text: 'Moin!', lang: undefined },
    intro: { text: '', lang: undefined },
    suggestions: { text: ['When are you open?'], lang: 'en' },
  });
  const unknown = { ...settings, language: null };
  expect(textsIn(unknown, 'de').suggestions.lang).toBeUndefined();
});
