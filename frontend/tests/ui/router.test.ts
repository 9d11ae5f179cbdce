import { expect, test } from 'vitest';
import { hrefOf, pageOf, Router, type BrowserWindow } from '../../src/lib/ui/router.svelte';

/** A browser window with a history. */
class FakeWindow implements BrowserWindow {
  private entries: URL[];
  private listener: () => void = () => {};

  constructor(at: string) {
    this.entries = [new URL(at, 'http://here')];
  }

  get location() {
    return this.entries.at(-1)!;
  }

  history = {
    pushState: (_: unknown, __: string, url: string) => void this.entries.push(new URL(url)),
    replaceState: (_: unknown, __: string, url: string) => void this.entries.splice(-1, 1, new URL(url)),
  };

  addEventListener(_: 'popstate', listener: () => void) {
    this.listener = listener;
  }

  back() {
    this.entries.pop();
    this.listener();
  }
}

const opened = (at: string) => {
  const window = new FakeWindow(at);
  return { window, router: new Router(window) };
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

test('a link leads to a page in the same folder', () => {
  const { window, router } = opened('/folder/learning?model=chat');
  router.go('chat');
  expect([router.page, router.model, window.location.pathname]).toEqual(['chat', null, '/folder/']);
  router.go('learning', 'a&b');
  expect([router.page, router.model, window.location.href]).toEqual([
    'learning',
    'a&b',
    'http://here/folder/learning?model=a%26b',
  ]);
});

test('going back shows the previous page', () => {
  const { window, router } = opened('/learning?model=vec');
  router.go('chat');
  window.back();
  expect([router.page, router.model]).toEqual(['learning', 'vec']);
});

test('a plain click is handled, and a click for a new tab is left to the browser', () => {
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

test('a link to the current page adds nothing to the history', () => {
  const { window, router } = opened('/learning');
  const before = window.location;
  router.follow(click().event, 'learning');
  expect(window.location).toBe(before);
});

test('the heading takes the focus after a navigation, not when the document is opened', async () => {
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

test('the address names the conversation shown, also after another page was shown', () => {
  const { window, router } = opened('/folder/');
  router.nameConversation('a b');
  expect(window.location.href).toBe('http://here/folder/?c=a+b');
  router.go('learning');
  router.go('chat');
  expect([router.conversation, window.location.search]).toEqual(['a b', '?c=a+b']);
});

test('a new conversation has no address yet, and going back leads to the one before', () => {
  const { window, router } = opened('/?c=first');
  router.goToConversation(null);
  expect([router.conversation, window.location.href]).toEqual([null, 'http://here/']);
  window.back();
  expect(router.conversation).toBe('first');
});

test('a conversation that begins while another page is shown changes the address later', () => {
  const { window, router } = opened('/learning');
  router.nameConversation('late');
  expect(window.location.href).toBe('http://here/learning');
  router.go('chat');
  expect(window.location.search).toBe('?c=late');
});

test('the address of a reply opens it, and going back returns to the page before', () => {
  const { window, router } = opened('/folder/?c=first');
  router.followToRepertoire(click().event, { reply: 'a&b' }, null);
  expect([router.page, router.reply, window.location.href]).toEqual([
    'repertoire',
    'a&b',
    'http://here/folder/repertoire?reply=a%26b',
  ]);
  router.follow(click().event, 'repertoire');
  expect([router.reply, window.location.search]).toEqual([null, '']);
  router.followToRepertoire(click().event, { part: 'unanswered' });
  expect([router.part, window.location.search]).toEqual(['unanswered', '?part=unanswered']);
  window.back();
  window.back();
  expect(router.reply).toBe('a&b');
  window.back();
  expect([router.page, router.conversation]).toEqual(['chat', 'first']);
});

test('a link to a group of the inbox opens it as a page of its own', () => {
  const { window, router } = opened('/folder/learning?model=chat');
  router.followToInbox(click().event, { model: 'chat', group: 'a&b' });
  expect([router.page, router.group, window.location.href]).toEqual([
    'inbox',
    'a&b',
    'http://here/folder/inbox?model=chat&group=a%26b',
  ]);
  window.back();
  expect([router.page, router.group]).toEqual(['learning', null]);
});

test('an unknown tab of the repertoire shows the replies of the model in the address', () => {
  const { window, router } = opened('/repertoire?model=faq&part=nothing');
  expect([router.model, router.part]).toEqual(['faq', 'replies']);
  router.followToRepertoire(click().event, { part: 'file' });
  expect(window.location.search).toBe('?model=faq&part=file');
});

test('a group of the inbox has an address, which "back" leaves', () => {
  const { window, router } = opened('/inbox?model=digits&group=a');
  expect([router.page, router.model, router.group]).toEqual(['inbox', 'digits', 'a']);
  router.goToGroup({ model: 'digits', group: 'b' });
  expect(window.location.search).toBe('?model=digits&group=b');
  router.goToGroup({ model: 'digits', group: 'c' }, false);
  window.back();
  expect(router.group).toBe('a');
  router.go('inbox', 'chat');
  expect([router.model, router.group, window.location.search]).toEqual(['chat', null, '?model=chat']);
  router.goToGroup({ model: null, group: null });
  expect(window.location.href).toBe('http://here/inbox');
});
