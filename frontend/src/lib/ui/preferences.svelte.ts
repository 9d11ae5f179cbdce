/* What a person chose for this browser: colours, language, and whether details of the model are shown. */

import { createContext } from 'svelte';
import { chooseLanguage, LANGUAGES, type Language } from '../messages';

export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

/** The part of `localStorage` that is used. It may be missing, or refuse. */
export type Storage = Pick<globalThis.Storage, 'getItem' | 'setItem'>;

const PREFIX = 'online.';

export class Preferences {
  theme = $state<Theme>('system');
  language = $state<Language>('en');
  showsDetails = $state(false);

  /** languages: those that the browser prefers, the best first. */
  constructor(
    private storage: Storage | null,
    languages: readonly string[],
  ) {
    this.theme = THEMES.find((theme) => theme === this.read('theme')) ?? 'system';
    const stored = this.read('language') ?? '';
    this.language = Object.hasOwn(LANGUAGES, stored) ? (stored as Language) : chooseLanguage(languages);
    this.showsDetails = this.read('details') === 'shown';
  }

  chooseTheme(theme: Theme) {
    this.theme = theme;
    this.write('theme', theme);
  }

  chooseLanguage(language: Language) {
    this.language = language;
    this.write('language', language);
  }

  toggleDetails() {
    this.showsDetails = !this.showsDetails;
    this.write('details', this.showsDetails ? 'shown' : 'hidden');
  }

  private read(name: string): string | null {
    try {
      return this.storage?.getItem(PREFIX + name) ?? null;
    } catch {
      return null; // storage may be switched off
    }
  }

  private write(name: string, value: string) {
    try {
      this.storage?.setItem(PREFIX + name, value);
    } catch {
      // without storage, the choice lasts as long as the page
    }
  }
}

/** The preferences, for every component of the page. */
export const [getPreferences, setPreferences] = createContext<Preferences>();
