import { expect, test } from 'vitest';
import { Preferences, type Storage } from '../../src/lib/ui/preferences.svelte';

class MemoryStorage implements Storage {
  kept = new Map<string, string>();
  getItem = (name: string) => this.kept.get(name) ?? null;
  setItem = (name: string, value: string) => void this.kept.set(name, value);
}

test('choices are kept for the next visit', () => {
  const storage = new MemoryStorage();
  const first = new Preferences(storage, ['en']);
  first.chooseTheme('dark');
  first.chooseLanguage('de');
  first.toggleDetails();
  const next = new Preferences(storage, ['en']);
  expect([next.theme, next.language, next.showsDetails]).toEqual(['dark', 'de', true]);
});

test('without choices the device and its language decide, and no details are shown', () => {
  const preferences = new Preferences(new MemoryStorage(), ['de-CH', 'en']);
  expect([preferences.theme, preferences.language]).toEqual(['system', 'de']);
  expect(preferences.showsDetails).toBe(false);
});

test('values that are not known are ignored', () => {
  const storage = new MemoryStorage();
  storage.setItem('online.theme', 'pink');
  storage.setItem('online.language', 'toString');
  const preferences = new Preferences(storage, ['en']);
  expect([preferences.theme, preferences.language]).toEqual(['system', 'en']);
});

test('storage that refuses changes nothing but the memory', () => {
  const refuse = () => {
    throw new DOMException('denied', 'SecurityError');
  };
  const preferences = new Preferences({ getItem: refuse, setItem: refuse }, ['en']);
  preferences.chooseTheme('light');
  expect(preferences.theme).toBe('light');
});
