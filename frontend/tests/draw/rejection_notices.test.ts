import { expect, test } from 'vitest';
import { describeRejection, RejectionNotices } from '../../src/lib/draw/rejection_notices.svelte';
import type { RejectedExample } from '../../src/lib/schema';

const FREE = { isFree: true };
const IN_USE = { isFree: false };

const rejected = (id: string, label: string, reason: string | null = null): RejectedExample => ({
  id,
  label,
  reason,
  input: null,
  given_at: '2026-11-21T09:00:00Z',
});

const idsOf = (notices: RejectionNotices) => notices.shown.map(({ examples }) => examples.map(({ id }) => id).join());

function memory(content = '') {
  const kept = new Map([['online.dismissed_rejections', content]]);
  return {
    getItem: (key: string) => kept.get(key) || null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
}

test('drawings of one name with one reason have one notice', () => {
  const notices = new RejectionNotices(null);
  const moons = [rejected('a', 'moon', 'Too small.'), rejected('b', 'moon', 'Too small.')];
  notices.update([...moons, rejected('c', 'moon'), rejected('d', 'sun')], FREE);
  expect(idsOf(notices)).toEqual(['a,b', 'c', 'd']);
  expect(notices.shown.slice(0, 2).map(describeRejection)).toEqual([
    'Moon: not learned. A person who looks after this page says: Too small.',
    'Moon: not learned. It was checked and not approved.',
  ]);
});

test('what was dismissed does not come back, in this page and after a reload', () => {
  const storage = memory();
  const all = [rejected('a', 'moon', 'Too small.'), rejected('b', 'sun')];
  const notices = new RejectionNotices(storage);
  notices.update(all, FREE);
  notices.dismiss(notices.shown[0]!);
  expect(idsOf(notices)).toEqual(['b']);
  notices.update(all, FREE);
  expect(idsOf(notices)).toEqual(['b']);

  const reloaded = new RejectionNotices(storage);
  reloaded.update([rejected('c', 'moon', 'Too small.'), ...all], FREE);
  expect(idsOf(reloaded)).toEqual(['c', 'b']);
  reloaded.dismiss(reloaded.shown[0]!);
  notices.update(all, FREE);
  notices.dismiss(notices.shown[0]!);
  const last = new RejectionNotices(storage);
  last.update([rejected('c', 'moon'), ...all], FREE);
  expect(last.shown).toEqual([]); // two pages do not overwrite what the other has dismissed
});

test('while somebody draws nothing is shown, but told once', () => {
  const notices = new RejectionNotices(null);
  const old = rejected('a', 'sun');
  notices.update([old], FREE);
  const told = notices.update([rejected('b', 'moon'), old], IN_USE);
  expect(told.map(({ label }) => label)).toEqual(['moon']);
  expect(idsOf(notices)).toEqual(['a']);
  expect(notices.update([rejected('b', 'moon'), old], IN_USE)).toEqual([]);
  expect(notices.update([rejected('b', 'moon'), old], FREE)).toEqual([]);
  expect(idsOf(notices)).toEqual(['b', 'a']);
});

test('what the bot says about the drawing on the board has no notice beside it', () => {
  const notices = new RejectionNotices(null);
  const moon = rejected('a', 'moon');
  const onBoard = { id: 'a', rejected: false };
  expect(notices.update([moon], { isFree: false, onBoard })).toEqual([]);
  notices.update([moon], FREE); // the next drawing began before the bot could say it
  expect(idsOf(notices)).toEqual(['a']);
  notices.update([moon], { isFree: false, onBoard: { ...onBoard, rejected: true } });
  notices.update([moon], FREE);
  expect(notices.shown).toEqual([]);
});

test('without storage, or with something else in it, what was dismissed stays so until a reload', () => {
  const refuse = () => {
    throw new Error('storage is switched off');
  };
  for (const storage of [null, { getItem: refuse, setItem: refuse }, memory('{}'), memory('[')]) {
    const notices = new RejectionNotices(storage);
    notices.update([rejected('a', 'moon')], FREE);
    notices.dismiss(notices.shown[0]!);
    notices.update([rejected('a', 'moon')], FREE);
    expect(notices.shown).toEqual([]);
  }
});
