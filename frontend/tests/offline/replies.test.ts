import { expect, test } from 'vitest';
import { HASHED, LocalReplies } from '../../src/lib/offline/replies';

const REPLIES = [
  {
    id: 'hours',
    text: 'We open at nine.',
    examples: ['When do you open?', 'What are your hours?'],
  },
  { id: 'print', text: 'The printer is by the stairs.', examples: ['Can I print here?'] },
  { id: 'wifi', text: 'The network is called Guest.', examples: ['Is there wifi?'] },
];

const open = (format = 1) =>
  LocalReplies.read(new TextEncoder().encode(JSON.stringify({ format, model: 'chat', replies: REPLIES })));

const textOf = async (replies: LocalReplies, question: string, exclude: string[] = []) =>
  (await replies.answer(question, exclude)).reply?.text ?? null;

test('a question gets the reply that it is an example of, and one near it', async () => {
  const replies = open();
  expect(await textOf(replies, 'When do you open?')).toBe('We open at nine.');
  expect(await textOf(replies, 'when do you open today')).toBe('We open at nine.');
  expect(await textOf(replies, 'Where can I print?')).toBe('The printer is by the stairs.');
});

test('it abstains on a question that is like nothing it knows', async () => {
  expect(await textOf(open(), 'qwertz zxcvb 12345')).toBeNull();
  expect(await textOf(open(), '…')).toBeNull();
});

test('another reply is the best of those that were not shown', async () => {
  const replies = open();
  expect(await textOf(replies, 'When do you open?', ['hours'])).not.toBeNull();
  expect(await textOf(replies, 'When do you open?', ['hours', 'print', 'wifi'])).toBeNull();
});

test('a thumb down takes a reply from the same question, and taking it back returns it', async () => {
  const replies = open();
  const thumb = { input: 'When do you open?', label: 'hours', reward: 0 };
  replies.learn(thumb);
  expect(await textOf(replies, 'when do you open')).not.toBe('We open at nine.');
  expect(await textOf(replies, 'Can I print here?')).toBe('The printer is by the stairs.');
  replies.unlearn(thumb);
  expect(await textOf(replies, 'When do you open?')).toBe('We open at nine.');
});

test.each([true, false])('a thumb up decides what the same question gets (asked before: %s)', async (asked) => {
  const replies = open();
  const question = 'What about the closing time?';
  if (asked) await replies.answer(question);
  replies.learn({ input: question, label: 'hours', reward: 1 });
  expect(await textOf(replies, question)).toBe('We open at nine.');
});

test('the last opinion about a question counts', async () => {
  const replies = open();
  const question = 'When do you open?';
  for (const reward of [0, 1]) replies.learn({ input: question, label: 'hours', reward });
  expect(await textOf(replies, question)).toBe('We open at nine.');
  replies.learn({ input: question, label: 'hours', reward: 0 });
  expect(await textOf(replies, question)).not.toBe('We open at nine.');
});

test('a correction brings a new reply, which has its text as its id', async () => {
  const replies = open();
  const text = 'Coffee is in the hall.';
  replies.learn({ input: 'Is there coffee?', label: text, reward: 1, text });
  const { reply } = await replies.answer('is there coffee');
  expect(reply).toEqual({ id: text, text });
  expect(replies.knows(text)).toBe(false);
});

test('a correction with the text of a known reply is an example of it', async () => {
  const replies = open();
  const text = ' we OPEN at nine.';
  replies.learn({ input: 'Is there coffee?', label: text, reward: 1, text });
  expect((await replies.answer('Is there coffee?')).reply?.id).toBe('hours');
});

test('an opinion about a reply that is not given any more has no effect', async () => {
  const replies = open();
  const thumb = { input: 'Is there coffee?', label: 'retired', reward: 1 };
  replies.learn(thumb);
  expect(await textOf(replies, 'Is there coffee?')).not.toBe('retired');
  replies.unlearn(thumb);
});

test('an opinion that is learned while a question is read counts for it', async () => {
  const replies = open();
  const thumb = { input: 'When do you open?', label: 'hours', reward: 0 };
  replies.readWith({
    ...HASHED,
    epoch: 'slow',
    encode: async (text) => {
      if (text === 'when do you open') replies.learn(thumb);
      return HASHED.encode(text);
    },
  });
  expect(await textOf(replies, 'when do you open')).not.toBe('We open at nine.');
});

test('a file of another format is refused', () => {
  expect(() => open(2)).toThrow('format 2');
});

test('a thumb changes the next answer within 100 ms among a hundred replies', async () => {
  const many = Array.from({ length: 135 }, (_, place) => ({
    id: `r${place}`,
    text: `Reply number ${place} about subject ${place * 7}`,
    examples: Array.from({ length: 7 }, (_, each) => `Question ${each} on subject ${place * 7}?`),
  }));
  const file = JSON.stringify({ format: 1, model: 'chat', replies: many });
  const replies = LocalReplies.read(new TextEncoder().encode(file));
  await replies.answer('Question 1 on subject 70?'); // makes the learner
  const durations: number[] = [];
  for (let place = 0; place < 5; place += 1) {
    const question = `Is subject ${place} open?`;
    const begin = process.cpuUsage();
    replies.learn({ input: question, label: 'r3', reward: 1 });
    expect((await replies.answer(question)).reply?.id).toBe('r3');
    const { user, system } = process.cpuUsage(begin);
    durations.push((user + system) / 1000);
  }
  expect(Math.min(...durations)).toBeLessThan(100);
});
