import { describe, expect, test } from 'vitest';
import { parseBlocks, parseInline } from '../../widget/markup';

describe('the Markdown of a reply', () => {
  test('has paragraphs, lists, code and headings', () => {
    const text = 'One\ntwo\n\n- a\n- b\n1. c\n\n```js\nif (a < b)\n```\n# Title';
    expect(parseBlocks(text).map(({ tag, lines }) => [tag, lines.length])).toEqual([
      ['p', 2],
      ['ul', 2],
      ['ol', 1],
      ['pre', 1],
      ['p', 1],
    ]);
  });

  test('has strong text, emphasis, code and links', () => {
    expect(parseInline('a **b *c*** `d`, see https://e.example/f.')).toEqual([
      'a ',
      { tag: 'strong', inner: ['b ', { tag: 'em', inner: ['c'] }] },
      ' ',
      { tag: 'code', inner: ['d'] },
      ', see ',
      { tag: 'a', href: 'https://e.example/f', inner: ['https://e.example/f'] },
      '.',
    ]);
  });

  test.each(['javascript:alert(1)', 'data:text/html,x', '//other.example', ' https://x.example'])(
    'has no link to %j',
    (target) => {
      const text = `[free](${target})`;
      expect(JSON.stringify(parseInline(text))).not.toContain('"href":"' + target);
      expect(parseInline('[free](javascript:alert)')).toEqual(['[free](javascript:alert)']);
    },
  );

  test('leaves tags as they were written', () => {
    const text = '<img src=x onerror=alert(1)>';
    expect(parseBlocks(text)).toEqual([{ tag: 'p', lines: [[text]] }]);
  });

  test.each(['**', '*a ', '`', '[a](', 'https://....', '[[[[', '**a**'])(
    'is read in a moment, however often it says %j',
    (part) => {
      const began = performance.now();
      parseBlocks(part.repeat(8000 / part.length));
      expect(performance.now() - began).toBeLessThan(1000);
    },
  );
});
