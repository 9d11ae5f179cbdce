/* Exports a conversation as a file: JSON with all data, or Markdown to read. */

import { t } from '../messages';
import type { StoredConversation, StoredFeedback, StoredTurn } from '../schema';

export type Format = 'json' | 'md';

const TYPES: Record<Format, string> = { json: 'application/json', md: 'text/markdown' };
const NAME_CHARS = 40;

export function toMarkdown({ title, created_at, said }: StoredConversation): string {
  return `${[`# ${oneLine(title)}`, created_at, ...said.flatMap(turnToMarkdown)].join('\n\n')}\n`;
}

function turnToMarkdown({ question, reply, besides, model_version, feedback }: StoredTurn): string[] {
  const words = t.chat.export;
  const speaker = besides.length > 0 ? words.another : words.reply;
  return [
    `**${words.you}:** ${question ?? t.chat.erased}`,
    `**${speaker}** (${t.chat.status.version(model_version)}): ${reply ? reply.text : words.none}`,
    ...(feedback.length > 0 ? [feedback.map((one) => `- ${describeFeedback(one)}`).join('\n')] : []),
  ];
}

function describeFeedback({ reward, label, correction, reason, comment, status, version }: StoredFeedback): string {
  const words = t.chat.export;
  const facts = [
    ...(reward == null ? [] : [reward < 0.5 ? words.wrong : words.good]),
    ...(label == null ? [] : [words.right(label)]),
    ...(correction == null ? [] : [words.taught(oneLine(correction))]),
    ...(reason ? [words.reason(oneLine(reason))] : []),
    ...(comment ? [words.comment(oneLine(comment))] : []),
  ];
  const progress = version ? words.inVersion(status, version) : status;
  return `${facts.join('; ') || t.chat.erased} (${progress})`;
}

const oneLine = (text: string) => text.replace(/\s+/g, ' ').trim();

/** "When do you open?" -> "when-do-you-open.md". */
export function fileName(title: string, format: Format): string {
  const words = title
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '');
  return `${words.slice(0, NAME_CHARS) || 'conversation'}.${format}`;
}

let lastUrl: string | null = null;

/** Download the conversation as a file. */
export function download(conversation: StoredConversation, format: Format) {
  const text = format === 'json' ? `${JSON.stringify(conversation, null, 2)}\n` : toMarkdown(conversation);
  const url = URL.createObjectURL(new Blob([text], { type: TYPES[format] }));
  const link = Object.assign(document.createElement('a'), {
    href: url,
    download: fileName(conversation.title, format),
  });
  link.click();
  // The browser does not report the end of a download, so the URL is kept until the next one.
  if (lastUrl !== null) URL.revokeObjectURL(lastUrl);
  lastUrl = url;
}
