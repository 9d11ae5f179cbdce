import { expect, test } from 'vitest';
import { ApiError } from '../../src/lib/http';
import { MAX_ITEMS, QueueFull } from '../../src/lib/offline/queue.svelte';
import type { QueuedItem } from '../../src/lib/offline/store';
import { settle } from '../fake';
import { named, openBrowser } from './scene.svelte';

const titles = (items: readonly { title: string }[]) => items.map(({ title }) => title);

test('what waits is sent in the order in which it was given', async () => {
  const { service, queue } = await openBrowser();
  service.isReachable = false;
  for (const label of ['star', 'heart', 'house']) await queue.give('digits', named(label));
  await queue.flush();
  expect(titles(queue.waiting)).toEqual(['star', 'heart', 'house']);
  expect(service.requests).toBe(0);

  service.isReachable = true;
  await queue.flush();
  expect(service.log).toEqual(['ada: star', 'ada: heart', 'ada: house']);
  expect(queue.waiting).toEqual([]);
  await settle();
  expect(queue.sentCounts).toEqual({ learned: 3, held: 0, refused: 0, retracted: 0 });
});

test('an item whose answer was lost is sent again and learned once', async () => {
  const { service, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  service.losesAnswer = true;
  service.isReachableAfterwards = false;
  await queue.flush();
  expect(titles(queue.waiting)).toEqual(['star']);
  service.isReachable = true;
  await queue.flush();
  expect([service.requests, service.log]).toEqual([2, ['ada: star']]);
});

test('a tab that was closed while it sent leaves the item to the next one', async () => {
  const { service, browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  await service.give('digits', named('star').body); // it has arrived, and then the tab was closed
  await browser.store.change('f-star', (item) => ({
    ...item,
    state: 'sending',
    maybeReceived: true,
  }));

  const next = await browser.openTab();
  await next.flush();
  expect(service.log).toEqual(['ada: star']);
  expect(next.waiting).toEqual([]);
});

test('two tabs share one queue, and only one of them sends an item', async () => {
  const { service, browser, queue } = await openBrowser();
  const other = await browser.openTab();
  await queue.give('digits', named('star'));
  await settle();
  expect(titles(other.waiting)).toEqual(['star']);
  await other.give('digits', named('heart'));
  await Promise.all([queue.flush(), other.flush()]);
  expect([service.requests, service.log]).toEqual([2, ['ada: star', 'ada: heart']]);
  await settle();
  expect([queue.waiting, other.waiting]).toEqual([[], []]);
});

test('what is given while others are sent follows them', async () => {
  const { service, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  const sending = queue.flush();
  await queue.give('digits', named('heart'));
  await sending;
  expect(service.log).toEqual(['ada: star', 'ada: heart']);
});

test('taking back what never left this browser drops it', async () => {
  const { service, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  const delivered = queue.delivered('f-star');
  expect(await queue.retract('digits', 'f-star')).toBeNull();
  expect(await delivered).toBeNull();
  await queue.flush();
  expect(service.requests).toBe(0);
});

test('taking back what may have arrived retracts it after it was sent again', async () => {
  const { service, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  service.losesAnswer = true;
  service.isReachableAfterwards = false;
  await queue.flush();
  service.isReachable = true;
  const retraction = await queue.retract('digits', 'f-star');
  expect(queue.items.map(({ kind, title }) => [kind, title])).toEqual([
    ['name', 'star'],
    ['retraction', 'star'],
  ]);
  await queue.flush();
  expect(service.log).toEqual(['ada: star', 'retract f-star']);
  expect((await queue.delivered(retraction!))?.status).toBe('retracted');
});

test('a retraction of what the service does not know is done', async () => {
  const { service, queue } = await openBrowser();
  const retraction = await queue.retract('digits', 'gone');
  await queue.flush();
  expect([service.log, queue.waiting, queue.refused]).toEqual([[], [], []]);
  expect((await queue.delivered(retraction!))?.status).toBe('retracted');
});

test('a refused item is shown with its reason, and the others are sent', async () => {
  const { service, queue } = await openBrowser();
  service.refused.set('star', new ApiError('needs the scope teach', 403));
  await queue.give('digits', named('star'));
  await queue.give('digits', named('heart'));
  const delivered = queue.delivered('f-star');
  await queue.flush();
  await expect(delivered).rejects.toThrow('needs the scope teach');
  expect(queue.refused.map(({ refusal }) => refusal)).toEqual([{ status: 403, message: 'needs the scope teach' }]);
  expect(service.log).toEqual(['ada: heart']);
  await queue.remove(queue.refused[0]!);
  expect(queue.refused).toEqual([]);
});

test('a refused item is changed and sent as new feedback', async () => {
  const { service, queue } = await openBrowser();
  service.refused.set('', new ApiError('the label is empty', 400));
  await queue.give('digits', { ...named(''), title: '' });
  await queue.flush();
  await queue.edit(queue.refused[0]!, 'moon');
  await queue.flush();
  expect(service.log).toEqual(['ada: moon']);
  expect(queue.items.map(({ id, body, example }) => [id, body?.id, example?.label])).toEqual([['n1', 'n1', 'moon']]);
});

test('a correction that is changed is learned here as it is sent', async () => {
  const { queue } = await openBrowser();
  const text = 'We open at nine.';
  await queue.give('chat', {
    kind: 'correction',
    title: text,
    body: { id: 'c1', input: 'When?', correction: text },
    example: { input: 'When?', label: text, reward: 1, text },
  });
  await queue.edit(queue.items[0]!, 'At ten.');
  const [{ body, example }] = queue.items as [QueuedItem];
  expect([body?.correction, example?.label, example?.text]).toEqual(['At ten.', 'At ten.', 'At ten.']);
});

test('a refused item stays where its change cannot be kept', async () => {
  const { service, queue, browser } = await openBrowser();
  service.refused.set('star', new ApiError('no', 400));
  await queue.give('digits', named('star'));
  await queue.flush();
  browser.store.add = () => Promise.reject(new DOMException('full', 'QuotaExceededError'));
  await expect(queue.edit(queue.refused[0]!, 'moon')).rejects.toThrow('full');
  await queue.reload();
  expect(titles(queue.refused)).toEqual(['star']);
});

test('feedback is kept, and sent once, whatever fails that follows the queue', async () => {
  const { service, queue } = await openBrowser();
  queue.onChange(() => {
    throw new Error('too many classes');
  });
  await queue.give('digits', named('star'));
  await queue.flush();
  expect([service.log, queue.waiting]).toEqual([['ada: star'], []]);
});

test('a busy service is asked again after the time that it names', async () => {
  const { service, browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  service.failures = [new ApiError('too many', 429, 30), new ApiError('starting', 503)];
  await queue.flush();
  expect(browser.pauses.slice(0, 2)).toEqual([30_000, 2_000]);
  expect(service.log).toEqual(['ada: star']);
});

test('a service that names no sensible time is asked again within ten minutes', async () => {
  const { service, browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  service.failures = [new ApiError('too many', 429, 1e9), new ApiError('too many', 429, -5)];
  await queue.flush();
  expect(browser.pauses.slice(0, 2)).toEqual([600_000, 2_000]);
});

test('one failed request is tried again while the service can be reached', async () => {
  const { service, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  service.failures = [new ApiError('no answer')];
  await queue.flush();
  expect([service.requests, service.log]).toEqual([2, ['ada: star']]);
});

test('the queue goes on although the service did not say at once who asks', async () => {
  const { service, browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  service.confirmFailures = [new ApiError('too many', 429, 30), new ApiError('no answer')];
  await queue.flush();
  expect(browser.pauses.slice(0, 2)).toEqual([30_000, 2_000]);
  expect(service.log).toEqual(['ada: star']);
});

test('without a session an item waits until the person signs in', async () => {
  const { service, browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  service.failures = [new ApiError('who are you?', 401)];
  await queue.flush();
  expect(browser.pauses).toEqual([]);
  expect(titles(queue.waiting)).toEqual(['star']);
});

test('what one person has given is never sent for another', async () => {
  const { service, browser, queue } = await openBrowser();
  service.isReachable = false;
  await queue.give('digits', named('star'));

  service.isReachable = true;
  service.caller = 'bob'; // signed in by another tab
  await queue.flush();
  expect(service.log).toEqual([]);
  const bobs = await browser.openTab('bob');
  expect([bobs.items, bobs.ofOthers.length]).toEqual([[], 1]);
  await bobs.flush();
  expect(service.log).toEqual([]);

  service.caller = 'ada';
  await (await browser.openTab()).flush();
  expect(service.log).toEqual(['ada: star']);
});

test('what waits stays when another person signs in while it is sent', async () => {
  const { service, queue } = await openBrowser();
  for (const label of ['star', 'heart']) await queue.give('digits', named(label));
  service.onRecord = () => (service.caller = 'bob');
  await queue.flush();
  expect(service.log).toEqual(['ada: star']);
  expect(queue.ofOthers.length).toBe(1);
});

test('what was sent is forgotten once a kept version has learned it', async () => {
  const { queue } = await openBrowser();
  await queue.give('digits', named('star'));
  await queue.give('digits', named('heart'));
  await queue.flush();
  await settle(); // until it is known what became of them
  await queue.prune('digits', 1);
  expect(titles(queue.items)).toEqual(['heart']);
  await queue.prune('other', 2);
  expect(titles(queue.items)).toEqual(['heart']);
});

test('a full queue refuses more', async () => {
  const { queue, browser } = await openBrowser();
  await queue.give('digits', named('star'));
  const [item] = queue.items;
  for (let place = 1; place < MAX_ITEMS; place += 1) await browser.store.add({ ...item!, id: `f${place}` });
  await queue.reload();
  await expect(queue.give('digits', named('heart'))).rejects.toThrow(QueueFull);
  await browser.store.change('f1', (one) => ({ ...one, state: 'sent', outcome: 'learned' }));
  await queue.reload();
  await queue.give('digits', named('heart'));
  expect(queue.items.length).toBe(MAX_ITEMS + 1);
});

test('what the service does not know any more has come to nothing', async () => {
  const { service, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  const sending = queue.flush();
  service.onRecord = () => void queueMicrotask(() => service.erase());
  await sending;
  await settle();
  expect(queue.sentCounts).toEqual({ learned: 0, held: 0, refused: 1, retracted: 0 });
});

test('what another tab has sent and pruned is retracted from a tab that still lists it', async () => {
  const { service, browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  const other = await browser.openTab();
  browser.isSilent = true; // the news has not arrived yet
  await other.flush();
  await settle();
  await other.prune('digits', 1);
  expect([titles(queue.waiting), await browser.store.items()]).toEqual([['star'], []]);
  expect(await queue.retract('digits', 'f-star')).not.toBeNull();
  await queue.flush();
  expect(service.log).toEqual(['ada: star', 'retract f-star']);
});

test('what waits of others is deleted with all that is kept for them', async () => {
  const { browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  await browser.store.keepAnswer({ owner: 'ada', name: 'taught', value: 1 });
  const bobs = await browser.openTab('bob');
  await bobs.give('digits', named('heart'));
  await bobs.forgetOthers(new Set(['ada']));
  expect([bobs.ofOthers.length, titles(bobs.items), queue.items]).toEqual([0, ['heart'], []]);
  expect(await browser.store.answer('ada', 'taught')).toBeNull();
});

test('what is deleted of others is what was asked about, and never what is of this caller', async () => {
  const { service, browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  const bobs = await browser.openTab('bob');
  const eves = await browser.openTab('eve');
  const asked = new Set(bobs.ofOthers.map(({ owner }) => owner));
  await eves.give('digits', named('heart')); // while the question is open
  await bobs.forgetOthers(asked);
  expect((await browser.store.items()).map(({ owner }) => owner)).toEqual(['eve']);
  service.caller = 'eve';
  await bobs.give('digits', named('moon'));
  await bobs.flush(); // which finds that the page speaks for her
  await bobs.forgetOthers(new Set(['eve']));
  expect((await browser.store.items()).map(({ owner }) => owner)).toEqual(['eve', 'bob']);
});

test('an account without waiting entries is not among those whose entries can be deleted', async () => {
  const { browser, queue } = await openBrowser();
  await queue.give('digits', named('star'));
  await queue.flush();
  await settle();
  expect((await browser.openTab('bob')).ofOthers).toEqual([]);
});
