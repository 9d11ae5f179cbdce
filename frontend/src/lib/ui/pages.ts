/* The pages. The build also reads this list, for the service worker. */

export const PAGES = [
  'chat',
  'inbox',
  'repertoire',
  'draw',
  'learning',
  'reports',
  'cluster',
  'routes',
  'shared',
] as const;
export type PageName = (typeof PAGES)[number];

/** The plugin of the service that answers a page's requests, for pages that need more than the core. */
export const PLUGIN_OF: Partial<Record<PageName, string>> = {
  inbox: 'moderation',
  learning: 'monitoring',
  reports: 'reports',
  cluster: 'cluster',
  routes: 'router',
};
