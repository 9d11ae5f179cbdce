/* Whose service this is: the settings `page_*` of the server, which it writes into index.html as a JSON block.

     <script type="application/json" id="page-settings">{"name": ...}</script> --> pageSettings

   Without the block, as on Vite's server, the page has the shipped name and colors.
*/

import { BASE_PATH } from '../base';

export type PageTexts = Pick<PageSettings, 'greeting' | 'intro' | 'suggestions'>;

/** Without a configured color, the colors are null and those of app.css hold. */
export interface PageSettings {
  name: string;
  /** The address of the logo; null for the shipped one. */
  logo: string | null;
  /** Empty where none is configured: the page greets in the visitor's language. */
  greeting: string;
  intro: string;
  suggestions: readonly string[];
  /** Of the greeting, the intro and the suggestions; null where it is not known. */
  language: string | null;
  /** The same texts by language. */
  translations: Readonly<Record<string, Partial<PageTexts>>>;
  color: string | null;
  accent_light: string | null;
  accent_dark: string | null;
  on_accent_light: string | null;
  on_accent_dark: string | null;
}

export const BLOCK = 'page-settings';

export const DEFAULTS: PageSettings = {
  name: 'online',
  logo: null,
  greeting: '',
  intro: '',
  suggestions: [],
  language: null,
  translations: {},
  color: null,
  accent_light: null,
  accent_dark: null,
  on_accent_light: null,
  on_accent_dark: null,
};

/** block: the text of the element; null where there is none. base: the folder of the page. */
export function readPageSettings(block: string | null, base: string): PageSettings {
  if (block === null) return DEFAULTS;
  const given = { ...DEFAULTS, ...(JSON.parse(block) as Partial<PageSettings>) };
  return { ...given, logo: given.logo && base + given.logo };
}

/** The texts of the empty chat page in a language, and for each the language that it has if that is another one. */
export function textsIn(settings: PageSettings, language: string) {
  const translation = settings.translations[language] ?? {};
  const foreign = settings.language === language ? undefined : (settings.language ?? undefined);
  const find = <Name extends keyof PageTexts>(name: Name) => {
    const translated = translation[name];
    return translated === undefined ? { text: settings[name], lang: foreign } : { text: translated, lang: undefined };
  };
  return { greeting: find('greeting'), intro: find('intro'), suggestions: find('suggestions') };
}

/** The part of `CSSStyleDeclaration` that is used. */
export type Style = Pick<CSSStyleDeclaration, 'setProperty'>;

/** Set the accent of both modes. A script may do this under any style policy, unlike a style attribute in HTML. */
export function applyColors(settings: PageSettings, style: Style) {
  const { accent_light, accent_dark, on_accent_light, on_accent_dark } = settings;
  const colors = { accent_light, accent_dark, on_accent_light, on_accent_dark };
  for (const [name, color] of Object.entries(colors))
    if (color) style.setProperty(`--${name.replaceAll('_', '-')}`, color);
}

const find = () => (typeof document === 'undefined' ? null : (document.getElementById(BLOCK)?.textContent ?? null));

/** Read once: the block does not change while the page is open. */
export const pageSettings = readPageSettings(find(), BASE_PATH);
