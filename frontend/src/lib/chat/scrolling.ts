/* Scrolls a box to a new reply, and to nothing else: what appears below a reply that was rated moves nothing
   under the pointer. */

const MARGIN_PX = 12;

const ACTIONS = ['pointerdown', 'keydown', 'wheel'] as const;

/** Scroll each new reply into view: its end if it fits, otherwise its first line. It is followed while it grows, such
    as when its Markdown is rendered, until the person does something. */
export function followReplies(box: HTMLElement) {
  let last = newestReplyIn(box);
  let grows = false;
  const follow = () => {
    const newest = newestReplyIn(box);
    if (newest !== last) grows = true;
    last = newest;
    if (grows) box.scrollTop += Math.min(hiddenBelow(box), roomAbove(box));
  };
  const stop = () => {
    grows = false;
  };
  const resizes = new ResizeObserver(follow);
  resizes.observe(box);
  if (box.firstElementChild) resizes.observe(box.firstElementChild);
  for (const name of ACTIONS) addEventListener(name, stop, { capture: true, passive: true });
  return () => {
    resizes.disconnect();
    for (const name of ACTIONS) removeEventListener(name, stop, { capture: true });
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

/** Scroll down until something that the person has opened below a reply is in view: its end if it fits, but not past
    the reply's first line. It runs again whenever what it depends on changes, such as when the content has come. */
export function revealBelowReply(node: HTMLElement) {
  const box = node.closest('main');
  const reply = node.closest('article');
  if (!box || !reply) return;
  const { top, bottom } = box.getBoundingClientRect();
  const hidden = node.getBoundingClientRect().bottom + MARGIN_PX - bottom;
  const room = reply.getBoundingClientRect().top - MARGIN_PX - top;
  box.scrollTop += Math.max(0, Math.min(hidden, room));
}
