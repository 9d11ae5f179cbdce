/* Which pages a service has something to show on: it may have no chat, or nothing to draw for. */

import type { ModelCard } from '../schema';
import { isChatModel, isDrawingModel, isRouter } from './models.svelte';
import { PLUGIN_OF, type PageName } from './pages';

/** Whether a page has what it needs; also true until the models are known. */
export function isServed(page: PageName, cards: readonly ModelCard[] | null): boolean {
  if (cards === null) return true;
  if (page === 'chat') return cards.some(isChatModel);
  if (page === 'routes') return cards.some(isRouter);
  return page !== 'draw' || cards.some(isDrawingModel);
}

/** Whether the service has the plugin that answers a page's requests. */
export function isInstalled(page: PageName, session: { has(plugin: string): boolean }): boolean {
  const plugin = PLUGIN_OF[page];
  return plugin === undefined || session.has(plugin);
}

/** The page on which the service opens: the chat, or without one what the person can use. */
export function landingOf(cards: readonly ModelCard[] | null, mayOperate: boolean): PageName {
  if (isServed('chat', cards)) return 'chat';
  if (isServed('draw', cards)) return 'draw';
  return mayOperate ? 'learning' : 'chat';
}
