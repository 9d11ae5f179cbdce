/* The pages. The build also reads this list, for the service worker. */

import type { Models } from './models.svelte';
import type { Router } from './router.svelte';

export const PAGES = ['chat', 'inbox', 'repertoire', 'draw', 'learning', 'reports', 'shared'] as const;
export type PageName = (typeof PAGES)[number];

/** The properties of every page except the chat. */
export interface PageProps {
  router: Router;
  models: Models;
}
