/* Everything that the page needs without the service, as one file that is loaded on demand. */

import BetterAnswersDialog from '../../components/offline/BetterAnswersDialog.svelte';
import OfflineBanner from '../../components/offline/OfflineBanner.svelte';
import { learnerDeltaApi, learnerFileApi, repertoireFileApi } from '../api/offline';
import type { Offlineable } from '../api/model';
import type { DrawApi } from '../api/draw';
import type { Api } from '../api/chat';
import type { BetterAnswers } from '../encoder/better_answers.svelte';
import { openBetterAnswers, openFiles } from '../encoder/open';
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
  readonly Dialog = BetterAnswersDialog;
  /** What answers in the chat; null until it was opened. */
  chat = $state.raw<LocalModel<LocalLearner> | null>(null);
  /** null until the chat was opened, and where this browser keeps no files. */
  better = $state.raw<BetterAnswers | null>(null);

  private files = openFiles();

  private constructor(
    readonly offline: Offline,
    private session: Session,
  ) {}

  /** Open what is kept in this browser. */
  static async open(connection: Connection, session: Session): Promise<OpenedOffline> {
    return new OpenedOffline(await Offline.open(connection, session), session);
  }

  async openChat(model: string, online: Api): Promise<Offlineable<Api>> {
    const better = this.files && (await openBetterAnswers(this.files, model, this.offline));
    this.better = better;
    const local = await this.offline.openModel({
      model,
      read: (file) => {
        const replies = LocalReplies.read(file);
        return better?.adopt(replies) ?? replies;
      },
      api: repertoireFileApi,
      mayKeep: () => this.session.mayPredict,
      isSimpler: () => !better?.isReady,
    });
    this.chat = local;
    return createOfflineChatApi(online, this.offline, local, async () => better?.whenStarted());
  }

  async openDrawing({ id: model, share_sums }: ModelCard, online: DrawApi) {
    const local = await this.offline.openModel({
      model,
      read: readClassifier,
      api: learnerFileApi,
      update: (kept, name, version) => updateLearnerFile(kept, name, version, learnerDeltaApi),
      mayKeep: () => share_sums || this.session.mayCurate,
      isSimpler: () => false,
    });
    const mayTeach = () => this.session.teaching !== 'off';
    return { local, api: createOfflineDrawApi(online, this.offline, local, mayTeach) };
  }

  /** Delete everything that is kept for a caller who has signed out. */
  async forget(owner: string): Promise<void> {
    try {
      await (this.better?.switchOff() ?? this.files?.delete());
    } finally {
      await this.offline.forget(owner); // after the encoder, which notes that its features are gone
    }
  }
}
