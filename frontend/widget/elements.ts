/* Elements and icons. Texts are set as text, never as HTML. */

const SVG = 'http://www.w3.org/2000/svg';

/** Paths on a grid of 24 by 24. */
const ICONS = {
  chat: 'M21 12a8.5 8.5 0 0 1-12.4 7.6L3 21l1.4-5.2A8.5 8.5 0 1 1 21 12Z',
  close: 'M6 6l12 12M18 6L6 18',
  up: 'M7 11v9H3v-9zM7 11l4-8a2.6 2.6 0 0 1 2.6 2.6V9h5a2 2 0 0 1 2 2.3l-1.3 7A2 2 0 0 1 17.3 20H7',
  down: 'M17 13V4h4v9zM17 13l-4 8a2.6 2.6 0 0 1-2.6-2.6V15h-5a2 2 0 0 1-2-2.3l1.3-7A2 2 0 0 1 6.7 4H17',
};

export function createElement<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Record<string, string>,
  children: (Node | string)[] = [],
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function createIcon(name: keyof typeof ICONS): SVGElement {
  const icon = document.createElementNS(SVG, 'svg');
  icon.setAttribute('viewBox', '0 0 24 24');
  icon.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  icon.append(path);
  return icon;
}
