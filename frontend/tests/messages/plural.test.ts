import { expect, test } from 'vitest';
import { learning as de } from '../../src/lib/messages/de/learning';
import { usage as deUsage } from '../../src/lib/messages/de/usage';
import { learning as en } from '../../src/lib/messages/en/learning';
import { usage as enUsage } from '../../src/lib/messages/en/usage';

/** Each sentence about one of something, as the learning page shows it. */
const sentences = ({ verdict, recent, actions, changes, refused, chart }: typeof en) => [
  verdict.right('0 %', '1', ''),
  verdict.error('3', '1', ''),
  verdict.recovered('1', '1'),
  verdict.errorRecovered('3', '1'),
  verdict.sinceRollBack('1', '1'),
  verdict.errorSinceRollBack('3', '1'),
  verdict.behind('1', '3 seconds'),
  verdict.refused('1', '1'),
  verdict.counting('1', '1'),
  recent.last('1'),
  recent.lastError('1'),
  recent.lastOfOlder('1', '7'),
  recent.lastErrorOfOlder('1', '7'),
  recent.tooFew(1, '1'),
  actions.rightBefore('1', '0 %'),
  actions.errorBefore('1', '3'),
  changes.summary(0, '0', '1'),
  changes.summary(1, '1', '1'),
  changes.asked('1'),
  refused.note(1, '1'),
  chart.counting('1', '1'),
];

test.each([...sentences(en), enUsage.topNote('1'), enUsage.aloneCount('1', '1')])(
  'one is not several: %s',
  (sentence) => {
    expect(sentence).not.toMatch(/\b(answers|events|questions|ratings|judgements)\b(?! that)/i);
    expect(sentence).not.toMatch(/\b(1|one) \w* ?(are|were|have)\b/);
  },
);

test.each([...sentences(de), deUsage.aloneCount('1', '1')])('eins ist nicht mehrere: %s', (sentence) => {
  expect(sentence).not.toMatch(/\b(Antworten|Ereignisse|Ereignissen|Fragen|Bewertungen)\b/);
});

test('the number of judgements that a verdict needs agrees with the number that there is', () => {
  expect(en.verdict.tooFew('1', '30')).toContain('there is 1 so far');
  expect(de.verdict.tooFew('2', '30')).toContain('Bisher sind es 2');
});
