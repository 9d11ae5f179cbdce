import { beforeEach, describe, expect, test, vi } from 'vitest';
import { Conversation } from '../../widget/conversation';
import { MESSAGES } from '../../widget/messages';
import { ServiceError } from '../../widget/service';

interface Sent {
  method: string;
  path: string;
  body: Record<string, unknown>;
}

const t = MESSAGES.en;
const timeout = new ServiceError('refused', t.busy, 'not learned yet', 504);

/** A conversation with a service that answers as `answers` says, by a part of the request; others as a service does. */
function start(answers: Record<string, (sent: Sent) => unknown> = {}, kept: string | null = null) {
  const sent: Sent[] = [];
  const events: [string, object][] = [];
  const said: string[] = [];
  const store = {
    kept,
    load: () => store.kept,
    save: (id: string) => (store.kept = id),
    clear: () => (store.kept = null),
  };
  const usual = ({ method, path, body }: Sent): unknown => {
    if (path.endsWith(':predict'))
      return {
        predictions: [{ reply: { id: 'r', text: 'Nine.' }, candidates: [] }],
        prediction_ids: [`p${sent.length}`],
        model_version: '7',
      };
    if (path.endsWith(':feedback')) {
      const [{ id }] = body['feedback'] as [{ id: string }];
      return { receipts: [{ id, offset: 5, status: 'accepted' }] };
    }
    return method === 'DELETE' ? {} : { status: 'learned', version: '8' };
  };
  const send = async (method: string, path: string, body: object = {}) => {
    const one = { method, path, body } as Sent;
    sent.push(one);
    const found = Object.entries(answers).find(([end]) => `${method} ${path}`.includes(end));
    return found ? found[1](one) : usual(one);
  };
  const conversation = new Conversation({
    service: { send: send as never },
    ...{ model: 'a b', t, store },
    emit: (name, detail) => events.push([name, detail]),
    changed: (announced) => announced && said.push(announced),
  });
  return { conversation, sent, events, said, store };
}

const names = (events: [string, object][]) => events.map(([name]) => name);

beforeEach(() => void vi.spyOn(console, 'error').mockImplementation(() => {}));

describe('a question', () => {
  test('is answered, kept in one conversation, and followed up with those before it', async () => {
    const { conversation, sent, events, said, store } = start();
    await conversation.ask('  When? ');
    const answer = await conversation.ask('And on Sunday?');
    expect(answer).toEqual({
      ...{ question: 'And on Sunday?', text: 'Nine.', predictionId: 'p2', version: '7' },
    });
    expect(sent.map(({ path }) => path)).toEqual(Array(2).fill('v1/models/a%20b:predict'));
    expect(sent.map(({ body }) => body['instances'])).toEqual([
      ['When?'],
      [{ text: 'And on Sunday?', previous: ['When?'] }],
    ]);
    expect(new Set(sent.map(({ body }) => body['conversation']))).toEqual(new Set([store.kept]));
    expect(names(events)).toEqual(['question', 'reply', 'question', 'reply']);
    expect(said).toContain('Nine.');
  });

  test('without an answer is told, and can be asked again', async () => {
    let fails = true;
    const { conversation, events } = start({
      ':predict': () => {
        if (fails) throw new ServiceError('unreachable', t.unreachable);
        return { predictions: [], prediction_ids: [], model_version: '1' };
      },
    });
    expect(await conversation.ask('When?')).toBeNull();
    expect([conversation.problem, conversation.pending]).toEqual([t.unreachable, null]);
    expect(events.at(-1)).toEqual(['error', { code: 'unreachable', message: t.unreachable }]);
    fails = false;
    expect(await conversation.ask('When?')).toMatchObject({ text: null });
    expect(conversation.problem).toBe('');
  });

  test('waits until the one before is answered', async () => {
    const { conversation, sent } = start();
    const first = conversation.ask('One?');
    expect(await conversation.ask('Two?')).toBeNull();
    await first;
    expect(sent).toHaveLength(1);
  });
});

async function answered(answers: Record<string, (sent: Sent) => unknown> = {}) {
  const started = start(answers);
  await started.conversation.ask('When?');
  started.sent.length = 0;
  return { ...started, turn: started.conversation.turns[0]! };
}

describe('a thumb', () => {
  test('is saved, then learned by the version that a prediction waited for', async () => {
    const { conversation, turn, sent, events } = await answered();
    await conversation.rate(turn, 'up');
    await vi.waitFor(() => expect(turn.status).toBe(t.learned));
    expect(sent.map(({ body }) => body['min_offset'])).toEqual([undefined, 5, undefined]);
    expect(events.at(-1)).toEqual(['learned', { predictionId: turn.id, version: '8' }]);
  });

  test('given again is taken back', async () => {
    const { conversation, turn, sent, events } = await answered();
    await conversation.rate(turn, 'down');
    await conversation.rate(turn, 'down');
    expect([turn.thumb, turn.status]).toEqual([null, t.undone]);
    expect(sent.some(({ method }) => method === 'DELETE')).toBe(true);
    expect(names(events)).toContain('retracted');
    await new Promise((done) => setTimeout(done)); // the news of the first one comes too late to count
    expect(turn.status).toBe(t.undone);
  });

  test('that could not be saved is not shown', async () => {
    const { conversation, turn } = await answered({
      ':feedback': () => {
        throw new ServiceError('refused', t.busy, 'busy', 503);
      },
    });
    await conversation.rate(turn, 'up');
    expect([turn.thumb, turn.status, conversation.problem]).toEqual([null, '', t.busy]);
  });

  test('of another opinion replaces the first, in the order in which they were given', async () => {
    const { conversation, turn, sent } = await answered();
    await Promise.all([conversation.rate(turn, 'up'), conversation.rate(turn, 'down')]);
    expect(turn.given.map(({ kind }) => kind)).toEqual(['down']);
    const given = sent.filter(({ path }) => path.endsWith(':feedback'));
    expect(given.map(({ body }) => (body['feedback'] as [{ reward: number }])[0].reward)).toEqual([1, 0]);
  });

  test('that is not learned for long is said to be kept', async () => {
    const { turn } = await answered();
    const late = start({ ':predict': () => Promise.reject(timeout) });
    await late.conversation.rate(turn, 'up');
    await vi.waitFor(() => expect(turn.status).toBe(t.later));
    expect(late.sent.filter(({ path }) => path.endsWith(':predict'))).toHaveLength(3);
  });

  test('that was refused is said not to be learned', async () => {
    const { conversation, turn, events } = await answered({
      'GET v1/models/a%20b/feedback/': () => ({ status: 'refused', reason: 'too many' }),
    });
    await conversation.rate(turn, 'up');
    await vi.waitFor(() => expect(turn.status).toBe(t.notLearned));
    expect(names(events)).not.toContain('learned');
  });
});

describe('a correction', () => {
  const held = ({ body }: Sent) => {
    const [{ id }] = body['feedback'] as [{ id: string }];
    return { receipts: [{ id, offset: 0, status: 'held' }] };
  };

  test('supersedes the reply where teaching is on, and nothing where it is reviewed', async () => {
    for (const [teaching, scope] of [
      ['on', 'reply'],
      ['review', undefined],
    ] as const) {
      const { conversation, turn, sent } = await answered();
      conversation.teaching = teaching;
      await conversation.correct(turn, ' Ten. ');
      const [item] = sent[0]!.body['feedback'] as [Record<string, unknown>];
      expect([item['correction'], item['scope']]).toEqual(['Ten.', scope]);
    }
  });

  test('that is held counts beside the thumb, and replaces one that was held before', async () => {
    const { conversation, turn } = await answered();
    await conversation.rate(turn, 'down');
    const reviewed = start({ ':feedback': held });
    await reviewed.conversation.correct(turn, 'Ten.');
    await reviewed.conversation.correct(turn, 'Eleven.');
    expect(turn.given.map(({ kind, text }) => [kind, text])).toEqual([
      ['down', ''],
      ['correction', 'Eleven.'],
    ]);
    expect(reviewed.sent.filter(({ method }) => method === 'DELETE')).toHaveLength(1);
    expect([turn.status, turn.thumb?.kind]).toEqual([t.held, 'down']);
    expect(names(reviewed.events)).toEqual(['feedback', 'feedback']);
  });

  test('of nothing but spaces is not sent', async () => {
    const { conversation, turn, sent } = await answered();
    await conversation.correct(turn, '  ');
    expect(sent).toEqual([]);
  });
});

describe('a conversation that was left', () => {
  const feedback = [
    { id: 'a', status: 'retracted', reward: 1 },
    { id: 'b', status: 'learned', reward: 0 },
    { id: 'c', status: 'held', correction: 'Ten.' },
  ];
  const stored = {
    prediction_id: 'p',
    question: 'When?',
    reply: { id: 'r', text: 'Nine.' },
    model_version: '3',
    feedback,
  };

  test('goes on with its turns and what was said about them', async () => {
    const { conversation, sent } = start({ '/conversations/kept': () => ({ said: [stored] }) }, 'kept');
    await conversation.restore();
    const turn = conversation.turns[0]!;
    expect([turn.question, turn.reply, turn.thumb?.kind, turn.correction?.text]).toEqual([
      ...['When?', 'Nine.', 'down', 'Ten.'],
    ]);
    await conversation.ask('And then?');
    expect(sent.at(-1)!.body['conversation']).toBe('kept');
  });

  test('begins anew where it was deleted', async () => {
    const gone = new ServiceError('refused', t.invalid, 'no such conversation', 404);
    const { conversation, store } = start({ '/conversations/kept': () => Promise.reject(gone) }, 'kept');
    await conversation.restore();
    expect(store.kept).toBeNull();
    await conversation.ask('When?');
    expect(store.kept).not.toBe('kept');
  });
});
