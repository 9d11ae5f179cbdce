import type { Models } from './models.svelte';
import type { Router } from './router.svelte';

/** The properties of every page except the chat. */
export interface PageProps {
  router: Router;
  models: Models;
}
