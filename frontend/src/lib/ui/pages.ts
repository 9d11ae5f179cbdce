/* The pages. The build also reads this list, for the service worker. */

export const PAGES = ['chat', 'inbox', 'repertoire', 'draw', 'learning', 'reports', 'shared'] as const;
export type PageName = (typeof PAGES)[number];
