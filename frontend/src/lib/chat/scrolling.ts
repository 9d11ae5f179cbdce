/* Scrolls a box to a new reply, and to a form that a person has opened where it is out of sight: nothing else moves
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
  return Math.max(0, newest.getBoundingClientRect().top - box.getBoundingClientRect().top - MARGIN_PX);
}

/** Scroll an element into view when it is mounted. */
export function scrollToElement(node: HTMLElement) {
  node.scrollIntoView({ block: 'end' });
}

/** Scroll down until something that the person has opened below a reply is in view: its end if it fits, but not past
    the reply's first line. It runs again whenever what it depends on changes, such as when the content has come. */
export function revealBelowReply(node: HTMLElement) {
  const reply = node.closest('article');
  if (reply) scrollInto(node, reply);
}

/** Scroll a form that the person has opened into view: all of it if it fits, otherwise its beginning. What comes
    into the conversation while it is read, such as a status, does not push it out again, until the person does something.
    What the form itself gains while it is filled in, such as a choice, does not push its buttons out of sight.
    A form that is in view already moves nothing. */
export function revealForm(form: HTMLElement) {
  const reveal = () => scrollInto(form, form, { upwards: true });
  const growth = new ResizeObserver(reveal);
  const ownGrowth = new ResizeObserver(() => {
    if (form.contains(document.activeElement)) reveal();
  });
  const stop = () => {
    growth.disconnect();
    for (const name of ACTIONS) removeEventListener(name, stop, { capture: true });
  };
  reveal();
  ownGrowth.observe(form);
  const box = form.closest('main');
  for (const each of [box, box?.firstElementChild]) if (each) growth.observe(each);
  for (const name of ACTIONS) addEventListener(name, stop, { capture: true, passive: true });
  return () => {
    stop();
    ownGrowth.disconnect();
  };
}

/** Scroll until the end of `node` is in view, but not past the beginning of `first`. upwards: whether that beginning is
    scrolled to where it is above what is shown. */
function scrollInto(node: HTMLElement, first: HTMLElement, { upwards = false } = {}) {
  const box = node.closest('main');
  if (!box) return;
  const { top, bottom } = box.getBoundingClientRect();
  const hidden = node.getBoundingClientRect().bottom + MARGIN_PX - bottom;
  const room = first.getBoundingClientRect().top - MARGIN_PX - top;
  const distance = upwards && room < 0 ? room : Math.max(0, Math.min(hidden, room));
  const isReduced = matchMedia('(prefers-reduced-motion: reduce)').matches;
  if (distance !== 0) box.scrollTo({ top: box.scrollTop + distance, behavior: isReduced ? 'instant' : 'smooth' });
}
