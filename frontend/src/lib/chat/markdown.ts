/* Converts Markdown to safe HTML. Any user may have taught a reply, so its text is not trusted.

   text -> marked -> HTML -> DOMPurify: these tags and attributes, no scripts, no styles, no images of other origins
*/

import createPurifier from 'dompurify';
import { Marked } from 'marked';

const TAGS = 'p br strong em del code pre ul ol li blockquote hr a img table thead tbody tr th td'.split(' ');
const ATTRIBUTES = ['href', 'title', 'src', 'alt', 'start', 'align'];
const SAFE_LINK = /^(?:https?:|mailto:|tel:)/i;

const marked = new Marked({
  gfm: true,
  breaks: true,
  async: false,
  // Headings become bold text: they would break the outline of the page for screen readers.
  renderer: {
    heading({ tokens }) {
      return `<p><strong>${this.parser.parseInline(tokens)}</strong></p>`;
    },
  },
});

const purifier = createPurifier(window);

purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'A') secureLink(node);
  if (node.tagName === 'IMG' && !isSameOrigin(node.getAttribute('src')))
    node.replaceWith(node.getAttribute('alt') ?? '');
});

function secureLink(link: Element) {
  if (!SAFE_LINK.test(link.getAttribute('href') ?? '')) link.removeAttribute('href');
  link.setAttribute('target', '_blank');
  link.setAttribute('rel', 'noopener noreferrer nofollow');
}

function isSameOrigin(source: string | null): boolean {
  return source !== null && URL.parse(source, document.baseURI)?.origin === location.origin;
}

export function render(text: string): string {
  const html = marked.parse(text) as string; // `async: false` above
  return purifier.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
  });
}
