/* The pages there are; the build reads this too, for the service worker. */

export const PAGES = ['chat', 'repertoire', 'draw', 'learning', 'reports'] as const;
export type PageName = (typeof PAGES)[number];
