/* Everything that the page needs without the service, as one file that is loaded on demand. */

import OfflineBanner from '../../components/offline/OfflineBanner.svelte';
import type { Connection } from '../ui/connection.svelte';
import type { Session } from '../ui/session.svelte';
import { Offline } from './offline.svelte';

export interface OpenedOffline {
  offline: Offline;
  Banner: typeof OfflineBanner;
}

/** Open what is kept in this browser. */
export async function openOffline(
  connection: Connection,
  session: Session,
): Promise<OpenedOffline> {
  return { offline: await Offline.open(connection, session), Banner: OfflineBanner };
}
