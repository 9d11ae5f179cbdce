import { expect, test } from 'vitest';
import { describeApproval, Gallery } from '../../src/lib/draw/gallery.svelte';
import { Sketches } from '../../src/lib/draw/sketches';
import type { RejectedExample, TaughtClass, TaughtExample } from '../../src/lib/schema';
import { settle } from '../fake';

const example = (id: string, status: TaughtExample['status'] = 'learned'): TaughtExample => ({
  id,
  prediction_id: `p-${id}`,
  input: null,
  status,
  offset: status === 'held' ? null : 1,
  given_at: '2026-11-21T09:00:00Z',
});

const classOf = (label: string, examples: TaughtExample[]): TaughtClass => ({
  label,
  active: true,
  count: examples.filter(({ status }) => status !== 'held').length,
  held: examples.filter(({ status }) => status === 'held').length,
  examples,
});

async function open(classes: TaughtClass[], sketched: string[] = [], rejected: RejectedExample[] = []) {
  const calls: string[] = [];
  const problems: unknown[] = [];
  const service = { classes, rejected, isBroken: false };
  const answer = <T>(call: string, value: T): Promise<T> => {
    calls.push(call);
    return service.isBroken ? Promise.reject(new Error('broken')) : Promise.resolve(value);
  };
  const sketches = new Sketches(null);
  for (const id of sketched) sketches.keep(id, []);
  const gallery = new Gallery({
    api: {
      examples: (of) => answer(`examples of ${of}`, { classes: service.classes, rejected: service.rejected }),
      forgetClass: (label) => answer(`forget ${label}`, 3),
      teachAgain: ({ id }, label, as) => answer(`teach ${id} as ${label}, ${as}`, undefined),
      retract: (id) => answer(`retract ${id}`, { id, offset: 9, status: 'retracted' as const }),
    },
    sketches,
    newId: () => 'new',
    pause: () => settle(),
    complain: (error) => problems.push(error),
  });
  await gallery.load();
  calls.length = 0;
  return { gallery, calls, problems, service, sketches };
}

const counts = (gallery: Gallery) => gallery.shown.map(({ label, count, held }) => `${label} ${count}+${held}`);

test('classes and drawings are counted, without those that wait and without retired classes', async () => {
  const { gallery } = await open([
    classOf('star', [example('a'), example('b'), example('c', 'held')]),
    classOf('heart', [example('d', 'held')]),
    { ...classOf('moon', [example('e')]), active: false },
  ]);
  expect([gallery.classCount, gallery.drawingCount, gallery.isEmpty]).toEqual([1, 2, false]);
  expect(gallery.pictureOf('star')?.id).toBe('a');
  expect(gallery.pictureOf('moon')).toBeUndefined();
});

test('a forgotten drawing disappears at once, and its class with the last one', async () => {
  const { gallery, calls, service } = await open([
    classOf('star', [example('a'), example('b')]),
    classOf('heart', [example('c', 'held')]),
  ]);
  service.classes = [classOf('star', [example('a')])];
  const forgetting = gallery.forget(example('b'));
  expect(counts(gallery)).toEqual(['star 1+0', 'heart 0+1']);
  expect(await forgetting).toBe(true);
  await gallery.forget(example('c', 'held'));
  expect(counts(gallery)).toEqual(['star 1+0']);
  expect(calls.filter((call) => call.startsWith('retract'))).toEqual(['retract b', 'retract c']);
});

test('a drawing that could not be forgotten is shown again, with the problem', async () => {
  const { gallery, problems, service } = await open([classOf('star', [example('a')])]);
  service.isBroken = true;
  expect(await gallery.forget(example('a'))).toBe(false);
  expect(counts(gallery)).toEqual(['star 1+0']);
  expect(problems.length).toBeGreaterThan(0);
});

test('an undo teaches a forgotten drawing once more, and keeps how it was drawn', async () => {
  const { gallery, calls, sketches } = await open([classOf('star', [example('a')])]);
  sketches.keep('a', [[{ x: 1, y: 2 }]]);
  await gallery.restore(example('a'), 'star');
  expect(calls).toContain('teach a as star, new');
  expect(gallery.strokesOf(example('new'))).toEqual([[{ x: 1, y: 2 }]]);
});

test('a class is forgotten, or says why not', async () => {
  const { gallery, service, problems } = await open([classOf('star', [example('a')])]);
  expect(await gallery.forgetClass('star')).toBe(3);
  service.isBroken = true;
  expect(await gallery.forgetClass('star')).toBeNull();
  expect(problems.length).toBeGreaterThan(0);
});

test('an answer about others does not replace a later choice', async () => {
  const { gallery, service } = await open([classOf('star', [example('a')])]);
  gallery.whose = 'everyone';
  service.classes = [classOf('sun', [example('z')])];
  const loading = gallery.load();
  gallery.whose = 'user';
  await loading;
  expect(counts(gallery)).toEqual(['star 1+0']);
});

test('strokes of earlier visits are dropped where the service no longer has the drawing', async () => {
  const classes = [classOf('star', [example('a'), example('b')]), classOf('heart', [example('c', 'held')])];
  const { gallery, service, sketches } = await open(classes, ['a', 'b', 'c', 'erased elsewhere']);
  expect(sketches.ids()).toEqual(['a', 'b', 'c']);
  service.classes = [classOf('star', [example('a')]), classOf('heart', [example('c', 'held')])];
  await gallery.forget(example('b'));
  await gallery.load();
  expect(sketches.ids()).toEqual(['a', 'b', 'c']); // this one can be restored
});

test('strokes stay where the service does not list all drawings', async () => {
  const { sketches } = await open([{ ...classOf('star', [example('a')]), count: 61 }], ['older']);
  expect(sketches.ids()).toEqual(['older']);
});

test('a drawing that a curator rejected is listed with the reason, and its strokes are kept', async () => {
  const rude: RejectedExample = { ...example('r'), label: 'rude', reason: 'Be kind.' };
  const { gallery, sketches } = await open([], ['r', 'erased elsewhere'], [rude]);
  expect(gallery.rejected).toEqual([rude]);
  expect(sketches.ids()).toEqual(['r']);
});

test('a drawing that waited is reported once when it was approved and learned', async () => {
  const waiting = [example('a', 'held'), example('b', 'held'), example('c', 'held')];
  const { gallery, service } = await open([classOf('moon', [...waiting, example('d')])]);
  expect(gallery.approved).toEqual([]);
  service.classes = [classOf('moon', [example('a', 'accepted'), example('b', 'accepted')])];
  await gallery.load();
  expect(gallery.approved).toEqual([]);
  service.classes = [classOf('moon', [example('a'), example('b'), example('d')])];
  await gallery.load();
  const told = gallery.approved;
  expect(told).toMatchObject([
    { id: 'a', label: 'moon' },
    { id: 'b', label: 'moon' },
  ]);
  expect(told.map((one) => describeApproval([one]))[0]).toBe('Moon was approved: I have learned it.');
  expect(describeApproval(told)).toBe('2 of your drawings were approved: I have learned them.');
  await gallery.load();
  expect(gallery.approved).toBe(told);
});

test('drawings whose strokes are in another browser are shown as squares', async () => {
  const kept = (id: string) => ({ ...example(id), input: new Array<number>(64).fill(8) });
  const { gallery, service } = await open([classOf('star', [kept('a')])], ['a']);
  expect(gallery.hasSquares).toBe(false);
  service.classes = [classOf('star', [kept('a'), kept('b')])];
  await gallery.load();
  expect(gallery.hasSquares).toBe(true);
});
