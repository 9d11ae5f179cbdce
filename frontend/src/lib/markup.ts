/* Whether a reply has markup, and the way to show it. What shows it is fetched when the first such reply comes. */

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

export async function rendered(text: string): Promise<string> {
  const { render } = await import('./markdown');
  return render(text);
}
