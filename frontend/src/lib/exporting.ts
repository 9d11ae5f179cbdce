/* A conversation as a file, made in the page: JSON with all that is known of it, or Markdown to read. */

import type { ConversationKept, SaidKept, TurnKept } from './schema';

export type Format = 'json' | 'md';

const TYPES: Record<Format, string> = { json: 'application/json', md: 'text/markdown' };
const NAME_CHARS = 40;

export function asMarkdown({ title, created_at, said }: ConversationKept): string {
  return `${[`# ${oneLine(title)}`, created_at, ...said.flatMap(turnAsMarkdown)].join('\n\n')}\n`;
}

function turnAsMarkdown({ question, reply, besides, model_version, feedback }: TurnKept): string[] {
  const who = besides.length > 0 ? 'Another reply' : 'Reply';
  return [
    `**You:** ${question ?? '(erased)'}`,
    `**${who}** (version ${model_version}): ${reply ? reply.text : 'none'}`,
    ...(feedback.length > 0 ? [feedback.map((one) => `- ${opinion(one)}`).join('\n')] : []),
  ];
}

function opinion({ reward, label, correction, reason, comment, status, version }: SaidKept): string {
  const facts = [
    ...(reward == null ? [] : [reward < 0.5 ? 'wrong reply' : 'good reply']),
    ...(label == null ? [] : [`the right reply: ${label}`]),
    ...(correction == null ? [] : [`taught: ${oneLine(correction)}`]),
    ...(reason ? [`reason: ${oneLine(reason)}`] : []),
    ...(comment ? [`comment: ${oneLine(comment)}`] : []),
  ];
  return `${facts.join('; ') || '(erased)'} (${version ? `${status} in version ${version}` : status})`;
}

const oneLine = (text: string) => text.replace(/\s+/g, ' ').trim();

/** "When do you open?" -> "when-do-you-open.md". */
export function fileName(title: string, format: Format): string {
  const words = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '');
  return `${words.slice(0, NAME_CHARS) || 'conversation'}.${format}`;
}

let lastUrl: string | null = null;

/** Hands the file to the browser, as if it were downloaded. */
export function save(kept: ConversationKept, format: Format) {
  const text = format === 'json' ? `${JSON.stringify(kept, null, 2)}\n` : asMarkdown(kept);
  const url = URL.createObjectURL(new Blob([text], { type: TYPES[format] }));
  const link = Object.assign(document.createElement('a'), { href: url, download: fileName(kept.title, format) });
  link.click();
  // The browser does not tell when it has taken the file, so that is kept until the next one.
  if (lastUrl !== null) URL.revokeObjectURL(lastUrl);
  lastUrl = url;
}
