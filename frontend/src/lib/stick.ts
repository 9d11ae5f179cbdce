/* Keeps a scrolled box at its end while its content grows, unless the reader has scrolled up to read. A new reply is what
   they asked for: it is followed wherever they were. */

const NEAR_PX = 80;
const AIR_PX = 12;

export function stickToEnd(box: HTMLElement) {
  let atEnd = true;
  let last = newestIn(box);
  const note = () => {
    atEnd = hidden(box) < NEAR_PX;
  };
  const follow = () => {
    const newest = newestIn(box);
    if (newest !== last) atEnd = true;
    last = newest;
    if (atEnd) box.scrollTop += Math.min(hidden(box), roomAbove(box));
  };
  const grown = new ResizeObserver(follow);
  grown.observe(box);
  if (box.firstElementChild) grown.observe(box.firstElementChild);
  box.addEventListener('scroll', note, { passive: true });
  return () => {
    grown.disconnect();
    box.removeEventListener('scroll', note);
  };
}

const newestIn = (box: HTMLElement) => [...box.querySelectorAll('article')].at(-1);
const hidden = (box: HTMLElement) => box.scrollHeight - box.scrollTop - box.clientHeight;

/** How far the newest reply may still move up: its first line stays in sight, however much is offered below it. */
function roomAbove(box: HTMLElement): number {
  const newest = newestIn(box);
  if (!newest) return Infinity;
  return Math.max(0, newest.getBoundingClientRect().top - box.getBoundingClientRect().top - AIR_PX);
}

/** For what must be seen at once: the question just asked. */
export function showNow(node: HTMLElement) {
  node.scrollIntoView({ block: 'end' });
}
