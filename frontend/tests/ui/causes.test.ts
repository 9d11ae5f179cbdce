import { afterEach, expect, test } from 'vitest';
import { loadMessages } from '../../src/lib/messages';
import { wordReason } from '../../src/lib/learning/verdict';
import type { Health, HealthReason } from '../../src/lib/schema';
import { wordCause } from '../../src/lib/ui/causes';

afterEach(() => loadMessages('en'));

const CAUSES = [
  ['guard', { since: 1031 }, 'seit Ereignis 1.031 schlechtere Antworten'],
  ['loss_rose', { since: 31 }, 'seit Ereignis 31 waren mehr Antworten falsch'],
  ['loss_rose', { since: 31, before: 0.1, after: 0.9, window: 64 }, '90\u00a0% der letzten 64'],
  ['process_ended', { status: -9, pause_s: 0.5 }, 'endete mit Status -9; nächster Start in 1 s'],
  ['process_not_started', { error: 'no memory', pause_s: 4 }, 'gestartet werden: no memory'],
  ['log_ends_early', { head: 9, learned_until: 1200 }, 'endet bei Ereignis 9, das Modell hatte aber'],
  ['log_has_other_events', { head: 9, learned_until: 7 }, 'hat bis 7 andere Ereignisse'],
  ['log_empty', {}, 'Die Datei ist leer.'],
  ['log_too_large', { limit: 5000 }, 'Dieser Dienst nimmt Logs bis 5\u00a0kB an.'],
  ['log_label_missing', {}, 'Nennen Sie die Spalte'],
  ['log_column_missing', { column: 'x', columns: 'a, b' }, 'keine Spalte „x“. Sie hat: a, b.'],
  ['log_lines_invalid', { line: 1200, problem: 'not_json', count: 1 }, 'Zeile 1.200 ist kein JSON'],
  ['log_lines_invalid', { line: 2, problem: 'no_label', count: 5 }, '4 weitere Zeilen'],
  ['log_lines_invalid', { line: 0, problem: 'later', count: 1 }, 'Eine Zeile ist unbrauchbar.'],
  ['log_line_too_long', { limit: 4_000_000 }, 'eine Zeile von mehr als 4'],
  ['log_unpacks_too_large', { limit: 8_000_000_000 }, 'Entpackt hat die Datei mehr als 8'],
  ['log_unpacks_too_large', { ratio: 200 }, 'mehr als 200-mal so groß'],
  ['log_unreadable', {}, 'ein anderes Format, als ihr Name sagt'],
  ['log_cut_off', {}, 'unvollständig'],
  ['log_without_rows', {}, 'hat keine Zeilen'],
  ['log_of_other_release', {}, 'Exportieren Sie es noch einmal'],
  ['logs_waiting', { count: 8 }, 'Es warten schon 8 Logs'],
  ['upload_cut_off', {}, 'Das Hochladen brach ab'],
] as const;

test.each(CAUSES)('the cause %s with %j is worded in German', async (code, figures, words) => {
  await loadMessages('de');
  expect(wordCause({ code, figures }, 'an English sentence')).toContain(words);
});

test('the words of an operator, and a cause that is not known yet, stay as they are', async () => {
  await loadMessages('de');
  expect(wordCause(null, 'holidays')).toBe('holidays');
  expect(wordCause(undefined, 'holidays')).toBe('holidays');
  expect(wordCause({ code: 'later', figures: {} }, 'something new')).toBe('something new');
});

test('the verdict words the cause that its figures name', async () => {
  await loadMessages('de');
  const reason: HealthReason = {
    code: 'learner_restarting',
    level: 'not_learning',
    sentence: 'the learner restarts: it ended with status 1',
    figures: { reason: 'it ended with status 1', cause: 'process_ended', status: 1, pause_s: 2 },
  };
  const words = wordReason(reason, { measure: 'right' } as Health);
  expect(words).toContain('Er endete mit Status 1; nächster Start in 2 s');
});
