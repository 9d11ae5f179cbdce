/* The Markdown that a reply may have, as a tree: paragraphs, lists, code, **bold**, *emphasis*, `code`, [links](https://...).

   text -> blocks -> inline nodes -> elements whose texts are set as text: nothing in a reply becomes HTML

   Anything else, such as tags, stays as it was written. The chat page renders more.
*/

export type Inline = string | { tag: 'strong' | 'em' | 'code' | 'a'; href?: string; inner: Inline[] };
export interface Block {
  tag: 'p' | 'ul' | 'ol' | 'pre';
  /** The lines of a paragraph or of code, or the items of a list. */
  lines: Inline[][];
}

const INLINE =
  /`([^`\n]+)`|\*\*(?=\S)([^\n]+?)\*\*(?!\*)|\*(?=\S)([^*\n]+?)\*|\[([^\]\n]+)\]\(([^\s()]+)\)|(https?:\/\/[^\s<>()"']*[^\s<>()"'.,;:!?])/;
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
const ITEM = /^\s*(?:([-*+])|\d{1,3}[.)])\s+(.*)$/;
const FENCE = /^\s*```/;
const HEADING = /^#{1,6}\s+(.*)$/;
const MAX_DEPTH = 4;

export function parseBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  let open: Block | null = null;
  let inCode = false;
  const add = (tag: Block['tag'], line: Inline[]) => {
    if (open?.tag !== tag) blocks.push((open = { tag, lines: [] }));
    open.lines.push(line);
  };
  for (const line of text.split(/\r?\n/)) {
    const item = ITEM.exec(line);
    if (FENCE.test(line)) [inCode, open] = [!inCode, null];
    else if (inCode) add('pre', [line]);
    else if (line.trim() === '') open = null;
    else if (item) add(item[1] ? 'ul' : 'ol', parseInline(item[2] ?? ''));
    else {
      const heading = HEADING.exec(line);
      add('p', heading ? [{ tag: 'strong', inner: [heading[1] ?? ''] }] : parseInline(line));
    }
  }
  return blocks;
}

export function parseInline(text: string, depth = 0): Inline[] {
  const nodes: Inline[] = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found && depth < MAX_DEPTH; found = INLINE.exec(rest)) {
    if (found.index > 0) nodes.push(rest.slice(0, found.index));
    nodes.push(nodeOf(found, depth + 1));
    rest = rest.slice(found.index + found[0].length);
  }
  return rest === '' ? nodes : [...nodes, rest];
}

function nodeOf(found: RegExpExecArray, depth: number): Inline {
  const [whole, code, strong, em, label, target, url] = found;
  if (code !== undefined) return { tag: 'code', inner: [code] };
  if (strong !== undefined) return { tag: 'strong', inner: parseInline(strong, depth) };
  if (em !== undefined) return { tag: 'em', inner: parseInline(em, depth) };
  if (url !== undefined) return { tag: 'a', href: url, inner: [url] };
  if (target === undefined || label === undefined || !SAFE_LINK.test(target)) return whole;
  return { tag: 'a', href: target, inner: [label] };
}

/** The elements of a reply. */
export function renderMarkup(text: string): HTMLElement[] {
  return parseBlocks(text).map(({ tag, lines }) => {
    const block = document.createElement(tag);
    for (const [place, line] of lines.entries())
      if (tag === 'p' || tag === 'pre')
        block.append(...(place ? [tag === 'p' ? document.createElement('br') : '\n'] : []), ...line.map(toNode));
      else {
        const item = document.createElement('li');
        item.append(...line.map(toNode));
        block.append(item);
      }
    if (tag === 'pre') block.tabIndex = 0; // so that a keyboard can scroll it
    return block;
  });
}

function toNode(inline: Inline): Node | string {
  if (typeof inline === 'string') return inline;
  const element = document.createElement(inline.tag);
  element.append(...inline.inner.map(toNode));
  if (element instanceof HTMLAnchorElement && inline.href !== undefined) {
    element.href = inline.href;
    element.target = '_blank';
    element.rel = 'noopener noreferrer nofollow';
  }
  return element;
}
