/* Detects Markdown in replies. The renderer is loaded with the first reply that needs it. */

const SIGNS = [
  /\*\*?\S[^*]*\*/, // *emphasis*, **strong**
  /(^|\s)_\S[^_]*_(?!\w)/m,
  /`[^`]+`/,
  /^\s*```/m,
  /^#{1,6}\s/m,
  /^\s*([-*+]|\d+[.)])\s+\S/m, // lists
  /^\s*>\s/m,
  /\[[^\]]+\]\([^)]+\)/, // links and images
  /^\|.*\|\s*$/m, // tables
  /\bhttps?:\/\/\S/,
  /<\/?[a-z][^>]*>/i,
];

export const hasMarkup = (text: string) => SIGNS.some((sign) => sign.test(text));

export async function renderMarkup(text: string): Promise<string> {
  const { render } = await import('./markdown');
  return render(text);
}
