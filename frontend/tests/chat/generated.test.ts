import { expect, test } from 'vitest';
import { readPieces, type BegunAnswer, type FallbackApi, type Piece } from '../../src/lib/api/fallback';
import { Conversation } from '../../src/lib/chat/conversation.svelte';
import { ApiError, openStream } from '../../src/lib/http';
import { LiveStatus } from '../../src/lib/ui/live_status.svelte';
import { ALL_RIGHTS, FakeApi, settle } from '../fake';

async function* piecesOf(...texts: string[]): AsyncGenerator<Piece> {
  for (const text of texts) yield { id: `answer-${texts.join('')}`, text };
}

/** Routes that answer with their name; further ones are none. */
class FakeFallback extends FakeApi {
  excluded: string[][] = [];
  pieces = (route: string): AsyncIterable<Piece> => piecesOf('from ', route);

  constructor(private routes: string[]) {
    super();
  }

  async ask(_question: string, exclude: string[], signal: AbortSignal): Promise<BegunAnswer> {
    this.excluded.push(exclude);
    const route = this.routes.find((name) => !exclude.includes(name));
    if (route === undefined) throw new ApiError('router: no other route', 502);
    return { route, pieces: untilAborted(this.pieces(route), signal) };
  }

  async answersOf(): ReturnType<FallbackApi['answersOf']> {
    const answer = { created_at: '2026-11-29T15:00:00Z', feedback: [] };
    const liked = { id: 'f', reward: 1, status: 'learned', version: '3' } as const;
    return {
      model: 'router',
      answers: {
        p1: [
          { ...answer, prediction_id: 'a1', route: 'small', text: 'liked', feedback: [liked] },
          { ...answer, prediction_id: 'a2', route: 'large', text: 'newest' },
        ],
      },
    };
  }
}

async function* untilAborted(pieces: AsyncIterable<Piece>, signal: AbortSignal) {
  for await (const piece of pieces) {
    signal.throwIfAborted();
    yield piece;
  }
}

/** A chat that knows no reply, and language models behind it. */
function openChat(routes = ['small', 'large']) {
  const api = new FakeApi();
  api.reply = null;
  const pause = () => new Promise<void>(() => {});
  const router = new FakeFallback(routes);
  const fallback = { api: router as never, live: new LiveStatus(router, pause), isServed: () => routes.length > 0 };
  let ids = 0;
  const newId = () => `f${++ids}`;
  const conversation = new Conversation({ api, live: new LiveStatus(api, pause), newId, rights: ALL_RIGHTS, fallback });
  return { api, router, conversation };
}

async function ask(routes?: string[]) {
  const chat = openChat(routes);
  await chat.conversation.ask('Why is the sky blue?');
  await settle();
  return { ...chat, generated: chat.conversation.last!.generated! };
}

test('a language model answers where the model knows no reply', async () => {
  const { generated, conversation } = await ask();
  const { text, route, id, isStreaming } = generated.current!;
  expect([text, route, id, isStreaming]).toEqual(['from small', 'small', 'answer-from small', false]);
  expect(conversation.busy).toBe(false);
});

test('without language models nothing is asked', async () => {
  const { conversation, router } = await ask([]);
  expect([conversation.last!.generated, router.excluded]).toEqual([null, []]);
});

test('an answer is stopped, and what has come stays', async () => {
  const { conversation, router } = openChat();
  let next = () => {};
  router.pieces = async function* () {
    yield { id: 'a', text: 'The first ' };
    await new Promise<void>((resolve) => (next = resolve));
    yield { id: 'a', text: 'and the rest' };
  };
  await conversation.ask('Why?');
  await settle();
  const { current } = conversation.last!.generated!;
  expect([current!.text, current!.isStreaming, conversation.isGenerating]).toEqual(['The first ', true, true]);
  expect(conversation.stopGenerating()).toBe(true);
  next();
  await settle();
  expect([current!.text, current!.isStreaming, current!.isCut]).toEqual(['The first ', false, false]);
  expect(conversation.stopGenerating()).toBe(false);
});

test('an answer that is cut says so, and another can be asked for', async () => {
  const { conversation, router } = openChat();
  router.pieces = async function* () {
    yield { id: 'a', text: 'The' };
    throw new ApiError('cut');
  };
  await conversation.ask('Why?');
  await settle();
  const generated = conversation.last!.generated!;
  expect([generated.current!.text, generated.current!.isCut, generated.offersAnother]).toEqual(['The', true, true]);
});

test('where no language model answers, the page says so and shows what it has', async () => {
  const { conversation, router } = openChat();
  router.ask = () => Promise.reject(new ApiError('router: no route answers', 502));
  await conversation.ask('Why?');
  await settle();
  const { generated, showsChips } = conversation.last!;
  expect([generated!.current, generated!.notice, showsChips]).toEqual([
    null,
    'No language model could answer now.',
    true,
  ]);
});

test('the better of two answers is kept, and the choice is undone as one', async () => {
  const { conversation, router, generated } = await ask();
  expect(generated.offersAnother).toBe(false);
  await conversation.act({ do: 'rate', reward: 0 });
  expect(generated.offersAnother).toBe(true);
  await conversation.act({ do: 'another' });
  expect([router.excluded.at(-1), generated.shown.map(({ text }) => text)]).toEqual([
    ['small'],
    ['from small', 'from large'],
  ]);
  const [first, second] = generated.shown;
  await generated.prefer(second!);
  expect(generated.shown).toEqual([second]);
  for (const [prediction_id, reward] of [
    ['answer-from small', 0],
    ['answer-from large', 1],
  ] as const)
    expect(router.sentFeedback).toContainEqual(
      expect.objectContaining({ prediction_id, reward, signal: 'preference' }),
    );
  await conversation.undo();
  expect(router.calls.filter((call) => call.startsWith('retract')).length).toBe(2);
  expect(generated.shown).toEqual([first, second]);
  expect([first!.reward, second!.reward]).toEqual([null, null]);
});

test('when all language models have answered, it is said once', async () => {
  const { generated } = await ask(['small']);
  await generated.rate(0);
  await generated.another();
  expect([generated.notice, generated.offersAnother, generated.rival]).toEqual([
    'There is no other language model to ask.',
    false,
    null,
  ]);
});

test('the same thumb again takes it back', async () => {
  const { router, generated } = await ask();
  await generated.rate(1);
  await generated.rate(1);
  expect([generated.current!.reward, router.calls.at(-1)]).toEqual([null, 'retract f2']);
});

test('a stored conversation shows the answer that was liked', async () => {
  const { conversation, api } = openChat();
  const turn = { question: 'Why?', reply: null, candidates: [], besides: [], feedback: [], after: '' };
  const facts = { prediction_id: 'p1', model_version: '42', created_at: '2026-11-29T15:00:00Z' };
  api.stored.set('c', { id: 'c', said: [{ ...turn, ...facts }] } as never);
  await conversation.show('c');
  const { current } = conversation.last!.generated!;
  expect([current!.text, current!.reward, conversation.followed !== null]).toEqual(['liked', 1, true]);
});

test('chunks are read until the end, and an end that is missing is an error', async () => {
  const chunk = (content: string) => JSON.stringify({ id: 'a', choices: [{ delta: { content } }] });
  async function* events(...data: string[]) {
    yield* data;
  }
  const read = async (...data: string[]) => {
    let text = '';
    for await (const piece of readPieces(events(...data))) text += piece.text;
    return text;
  };
  expect(await read(chunk('a'), chunk('b'), '[DONE]', chunk('c'))).toBe('ab');
  await expect(read(chunk('a'))).rejects.toThrow('too early');
  await expect(read(chunk('a'), '{"error": {"message": "it is cut"}}')).rejects.toThrow('it is cut');
});

test('events are found wherever the network splits them', async () => {
  const bytes = new TextEncoder().encode(': ping\r\n\r\ndata: größer\r\n\r\ndata: [DONE]\n\n');
  const parts = [...bytes].map((byte) => new Uint8Array([byte]));
  const body = new ReadableStream({ pull: (to) => (parts.length > 0 ? to.enqueue(parts.shift()) : to.close()) });
  const { fetch } = globalThis;
  globalThis.fetch = async () => new Response(body, { headers: { 'x-route': 'small' } });
  const { headers, events } = await openStream('any', {}, new AbortController().signal);
  globalThis.fetch = fetch;
  const found = [];
  for await (const event of events) found.push(event);
  expect([headers.get('x-route'), found]).toEqual(['small', ['', 'größer', '[DONE]']]);
});
