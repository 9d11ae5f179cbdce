import { expect, test } from 'vitest';
import { hrefOf, pageOf, Router, type Place } from '../src/lib/router.svelte';

/** A window that remembers where it has been. */
class FakePlace implements Place {
  private been: URL[];
  private heard: () => void = () => {};

  constructor(at: string) {
    this.been = [new URL(at, 'http://here')];
  }

  get location() {
    return this.been.at(-1)!;
  }

  history = {
    pushState: (_: unknown, __: string, url: string) => void this.been.push(new URL(url)),
    replaceState: (_: unknown, __: string, url: string) => void this.been.splice(-1, 1, new URL(url)),
  };

  addEventListener(_: 'popstate', heard: () => void) {
    this.heard = heard;
  }

  back() {
    this.been.pop();
    this.heard();
  }
}

const opened = (at: string) => {
  const place = new FakePlace(at);
  return { place, router: new Router(place) };
};

const click = (more: Partial<MouseEvent> = {}) => {
  let prevented = false;
  const event = {
    button: 0,
    ctrlKey: false,
    metaKey: false,
    shiftKey: false,
    altKey: false,
    defaultPrevented: false,
    ...more,
    preventDefault: () => (prevented = true),
  } as unknown as MouseEvent;
  return { event, isOurs: () => prevented };
};

test.each([
  ['/', 'chat'],
  ['/learning', 'learning'],
  ['/repertoire', 'repertoire'],
  ['/somewhere/else/learning', 'learning'],
  ['/somewhere/else/', 'chat'],
  ['/nothing', 'chat'],
])('the path %s shows the page %s', (path, page) => {
  expect(pageOf(path)).toBe(page);
});

test('a deep link opens its page, about its model', () => {
  const { router } = opened('/learning?model=a%20b');
  expect([router.page, router.model]).toEqual(['learning', 'a b']);
});

test('a link leads to a page beside this one, in whatever folder', () => {
  const { place, router } = opened('/folder/learning?model=chat');
  router.go('chat');
  expect([router.page, router.model, place.location.pathname]).toEqual(['chat', null, '/folder/']);
  router.go('learning', 'a&b');
  expect([router.page, router.model, place.location.href]).toEqual([
    'learning',
    'a&b',
    'http://here/folder/learning?model=a%26b',
  ]);
});

test('going back shows what was shown before', () => {
  const { place, router } = opened('/learning?model=vec');
  router.go('chat');
  place.back();
  expect([router.page, router.model]).toEqual(['learning', 'vec']);
});

test('a click on a link is ours, a click for a new tab is the browsers', () => {
  const { router } = opened('/');
  for (const more of [{ ctrlKey: true }, { metaKey: true }, { shiftKey: true }, { button: 1 }]) {
    const { event, isOurs } = click(more);
    router.follow(event, 'learning');
    expect([isOurs(), router.page]).toEqual([false, 'chat']);
  }
  const { event, isOurs } = click();
  router.follow(event, 'learning');
  expect([isOurs(), router.page]).toEqual([true, 'learning']);
});

test('a link to where one is leaves no trace in the history', () => {
  const { place, router } = opened('/learning');
  const before = place.location;
  router.follow(click().event, 'learning');
  expect(place.location).toBe(before);
});

test('the heading takes the focus when somebody came, not when the document was opened', async () => {
  const { router } = opened('/');
  let focused = 0;
  const heading = { focus: () => (focused += 1) } as unknown as HTMLElement;
  router.heading(heading);
  router.go('learning');
  router.heading(heading);
  await new Promise((resolve) => setTimeout(resolve));
  expect(focused).toBe(1);
  expect(hrefOf('chat')).toBe('./');
});

test('the address leads back to the conversation that is shown, also after a look at another page', () => {
  const { place, router } = opened('/folder/');
  router.nameConversation('a b');
  expect(place.location.href).toBe('http://here/folder/?c=a+b');
  router.go('learning');
  router.go('chat');
  expect([router.conversation, place.location.search]).toEqual(['a b', '?c=a+b']);
});

test('a new conversation has no address yet, and going back leads to the one before', () => {
  const { place, router } = opened('/?c=first');
  router.goToConversation(null);
  expect([router.conversation, place.location.href]).toEqual([null, 'http://here/']);
  place.back();
  expect(router.conversation).toBe('first');
});

test('a conversation that begins while another page is shown is remembered, not told', () => {
  const { place, router } = opened('/learning');
  router.nameConversation('late');
  expect(place.location.href).toBe('http://here/learning');
  router.go('chat');
  expect(place.location.search).toBe('?c=late');
});

test('the address of a reply leads to it, from wherever, and the way back to where one was', () => {
  const { place, router } = opened('/folder/?c=first');
  router.followInto(click().event, { reply: 'a&b' }, null);
  expect([router.page, router.reply, place.location.href]).toEqual([
    'repertoire',
    'a&b',
    'http://here/folder/repertoire?reply=a%26b',
  ]);
  router.follow(click().event, 'repertoire');
  expect([router.reply, place.location.search]).toEqual([null, '']);
  router.followInto(click().event, { part: 'unanswered' });
  expect([router.part, place.location.search]).toEqual(['unanswered', '?part=unanswered']);
  place.back();
  place.back();
  expect(router.reply).toBe('a&b');
  place.back();
  expect([router.page, router.conversation]).toEqual(['chat', 'first']);
});

test('a part of the repertoire that there is not shows its replies, of the model that the address names', () => {
  const { place, router } = opened('/repertoire?model=faq&part=nothing');
  expect([router.model, router.part]).toEqual(['faq', 'replies']);
  router.followInto(click().event, { part: 'file' });
  expect(place.location.search).toBe('?model=faq&part=file');
});
