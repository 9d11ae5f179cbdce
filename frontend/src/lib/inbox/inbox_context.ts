/* The counter of the inbox, for the navigation and the page of the inbox. */

import { createContext } from 'svelte';
import type { InboxCounter } from './inbox_count.svelte';

export const [getInboxCounter, setInboxCounter] = createContext<InboxCounter>();
