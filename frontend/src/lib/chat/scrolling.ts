/* Keeps a box scrolled to its end while its content grows, unless the reader has scrolled up. A new
   reply is always scrolled into view. */

const NEAR_PX = 80;
const MARGIN_PX = 12;

export function stickToEnd(box: HTMLElement) {
  let atEnd = true;
  let last = newestReplyIn(box);
  const update = () => {
    atEnd = hiddenBelow(box) < NEAR_PX;
  };
  const follow = () => {
    const newest = newestReplyIn(box);
    if (newest !== last) atEnd = true;
    last = newest;
    if (atEnd) box.scrollTop += Math.min(hiddenBelow(box), roomAbove(box));
  };
  const resizes = new ResizeObserver(follow);
  resizes.observe(box);
  if (box.firstElementChild) resizes.observe(box.firstElementChild);
  box.addEventListener('scroll', update, { passive: true });
  return () => {
    resizes.disconnect();
    box.removeEventListener('scroll', update);
  };
}

const newestReplyIn = (box: HTMLElement) => [...box.querySelectorAll('article')].at(-1);
const hiddenBelow = (box: HTMLElement) => box.scrollHeight - box.scrollTop - box.clientHeight;

/** How far the newest reply can move up while its first line stays visible. */
function roomAbove(box: HTMLElement): number {
  const newest = newestReplyIn(box);
  if (!newest) return Infinity;
  return Math.max(
    0,
    newest.getBoundingClientRect().top - box.getBoundingClientRect().top - MARGIN_PX,
  );
}

/** Scroll an element into view when it is mounted. */
export function scrollToElement(node: HTMLElement) {
  node.scrollIntoView({ block: 'end' });
}
