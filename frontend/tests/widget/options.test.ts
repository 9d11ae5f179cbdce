import { describe, expect, test } from 'vitest';
import { luminance, readableOn } from '../../widget/colors';
import { chooseLanguage, MESSAGES } from '../../widget/messages';
import { readOptions } from '../../widget/options';

describe('the options of a script tag', () => {
  test('are its data attributes, and its folder is the service', () => {
    const script = {
      src: 'https://host.example/tools/widget.js?v=2',
      dataset: { model: 'faq', theme: 'dark', position: 'bottom-left', open: '', target: '#chat' },
    };
    expect(readOptions(script)).toMatchObject({
      service: 'https://host.example/tools/',
      ...{ model: 'faq', theme: 'dark', position: 'bottom-left', open: true, target: '#chat' },
    });
  });

  test('are the usual ones where a value is unknown', () => {
    const dataset = { theme: 'pink', position: 'top', language: 'fr', open: 'false' };
    const { theme, position, language, open } = readOptions({
      src: 'https://a.example/widget.js',
      dataset,
    });
    expect([theme, position, language, open]).toEqual([undefined, undefined, undefined, false]);
  });
});

describe('the language', () => {
  test.each([
    [['de-CH', 'en'], 'de'],
    [[undefined, '', 'fr', 'en-GB'], 'en'],
    [['constructor'], 'en'],
  ])('is chosen for %j', (tags, language) => expect(chooseLanguage(tags)).toBe(language));

  test('is German in every German sentence', () => {
    const { en, de } = MESSAGES;
    for (const [name, sentence] of Object.entries(de))
      if (typeof sentence === 'string' && name !== 'title')
        expect(sentence, name).not.toBe(en[name as keyof typeof en]);
  });
});

test('texts on every accent have a contrast of 4.5:1', () => {
  for (let code = 0; code < 4096; code++) {
    const color = [code >> 8, (code >> 4) & 15, code & 15].map((digit) => digit * 17);
    const [on, under] = [readableOn(color as never) === '#fff' ? 1 : 0, luminance(color as never)];
    const [light, dark] = [Math.max(on, under), Math.min(on, under)];
    expect((light + 0.05) / (dark + 0.05)).toBeGreaterThanOrEqual(4.5);
  }
});
