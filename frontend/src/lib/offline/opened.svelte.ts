/* Everything that the page needs without the service, as one file that is loaded on demand. */

import OfflineBanner from '../../components/offline/OfflineBanner.svelte';
import {
  learnerDeltaApi,
  learnerFileApi,
  repertoireFileApi,
  type Api,
  type DrawApi,
  type Offlineable,
} from '../api';
import type { ModelCard } from '../schema';
import type { Connection } from '../ui/connection.svelte';
import type { Session } from '../ui/session.svelte';
import { createOfflineChatApi } from './chat_api';
import { readClassifier } from './classifier';
import { createOfflineDrawApi } from './draw_api';
import { updateLearnerFile } from './learner_file';
import type { LocalLearner, LocalModel } from './local_model.svelte';
import { Offline } from './offline.svelte';
import { LocalReplies } from './replies';

export class OpenedOffline {
  readonly Banner = OfflineBanner;
  /** What answers in the chat; null until it was opened. */
  chat = $state.raw<LocalModel<LocalLearner> | null>(null);

  private constructor(
    readonly offline: Offline,
    private session: Session,
  ) {}

  /** Open what is kept in this browser. */
  static async open(connection: Connection, session: Session): Promise<OpenedOffline> {
    return new OpenedOffline(await Offline.open(connection, session), session);
  }

  async openChat(model: string, online: Api): Promise<Offlineable<Api>> {
    const local = await this.offline.openModel({
      model,
      read: (file) => LocalReplies.read(file),
      api: repertoireFileApi,
      mayKeep: () => this.session.mayPredict,
      isSimpler: true,
    });
    this.chat = local;
    return createOfflineChatApi(online, this.offline, local);
  }

  async openDrawing({ id: model, share_sums }: ModelCard, online: DrawApi) {
    const local = await this.offline.openModel({
      model,
      read: readClassifier,
      api: learnerFileApi,
      update: (kept, name, version) => updateLearnerFile(kept, name, version, learnerDeltaApi),
      mayKeep: () => share_sums || this.session.mayCurate,
      isSimpler: false,
    });
    const mayTeach = () => this.session.teaching !== 'off';
    return { local, api: createOfflineDrawApi(online, this.offline, local, mayTeach) };
  }
}
