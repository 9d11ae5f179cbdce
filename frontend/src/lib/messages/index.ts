/* Every sentence that the pages show, in the language of the person.

   en/*.ts --typeof--> Messages <--implemented by-- de/*.ts (a missing sentence does not compile)
   loadMessages(language), before the pages are created -> t

   Read `t` when a component or an object is created, never while a module is imported: the language is chosen after that.
   A sentence with a value in it is a function. The pages start again after another language was chosen.
*/

import { en, type Messages } from './en';

/** The languages, each by its own name. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof LANGUAGES;

/** The messages. Importers see the change that `loadMessages` makes. */
export let t: Messages = en;
/** The language of `t`. */
export let language: Language = 'en';
/** Its variant that the person prefers, such as "en-GB", for the formats of numbers and times. */
export let locale = 'en';

const isLanguage = (name: string): name is Language => Object.hasOwn(LANGUAGES, name);

/** The first language that a person prefers and the pages have. preferred: tags such as "de-AT", the best first. */
export function chooseLanguage(preferred: readonly string[]): Language {
  const names = preferred.map((tag) => tag.toLowerCase().split('-')[0] ?? '');
  return names.find(isLanguage) ?? 'en';
}

/** The first variant of a language that a person prefers; the language itself where there is none. */
export function chooseLocale(wanted: Language, preferred: readonly string[]): string {
  return preferred.find((tag) => tag.toLowerCase().split('-')[0] === wanted) ?? wanted;
}

/** Load the messages of a language, in which all pages created afterwards speak. preferred: as in `chooseLocale`. */
export async function loadMessages(wanted: Language, preferred: readonly string[] = []): Promise<void> {
  t = wanted === 'de' ? (await import('./de')).de : en;
  [language, locale] = [wanted, chooseLocale(wanted, preferred)];
}
