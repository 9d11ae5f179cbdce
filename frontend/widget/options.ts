/* The options of a widget, from the attributes of its script tag. */

import type { WidgetOptions } from './public_types';

/** What a script tag has: its address and its data attributes. */
export type ScriptTag = Pick<HTMLScriptElement, 'src' | 'dataset'>;

/** The first of the choices that a value is; undefined for any other value. */
const oneOf = <T extends string>(value: string | undefined, ...choices: T[]): T | undefined =>
  choices.find((choice) => choice === value);

/** The folder of widget.js is the address of the service: "https://host/tools/widget.js?v=2" -> "https://host/tools/". */
export const folderOf = (address: string): string => new URL('./', address).href;

export function readOptions({ src, dataset }: ScriptTag): WidgetOptions {
  const { model, target, title, greeting, accent } = dataset;
  return {
    ...{ service: folderOf(src), model, target, title, greeting, accent },
    theme: oneOf(dataset['theme'], 'light', 'dark', 'auto'),
    position: oneOf(dataset['position'], 'bottom-right', 'bottom-left'),
    language: oneOf(dataset['language'], 'en', 'de'),
    open: dataset['open'] !== undefined && dataset['open'] !== 'false',
  };
}
