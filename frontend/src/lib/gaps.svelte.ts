/* Questions that get no reply, those that mean much the same together, each such gap to be closed by one press.

   unanswered -> Gap: its questions -> teach -> a correction for each, in one request -> learned
                                         \-> undo -> all of them taken back
*/

import type { RepertoireApi } from './api';
import { Change } from './change.svelte';
import type { Live } from './live.svelte';
import type { Candidate, OpenCluster, OpenQuestion } from './schema';
import { counted, messageOf } from './words';

const SUGGESTED = 3;

interface Around {
  api: RepertoireApi;
  live: Live;
  user: string;
  newId: () => string;
}

export class Gap {
  questions = $state.raw<OpenQuestion[]>([]);
  asked = $state(0);
  open = $state(false);
  draft = $state('');
  /** Replies that come nearest. */
  suggested = $state.raw<Candidate[]>([]);
  /** The reply that its questions were taught; null: none, or it was taken back. */
  taught = $state<string | null>(null);
  change = $state.raw<Change | null>(null);

  busy = $derived(this.change !== null && !this.change.saved && this.change.failed === null);
  predictions = $derived(new Set(this.questions.flatMap(({ predictions }) => predictions)));

  private given: string[] = [];

  constructor(
    private around: Around,
    cluster: OpenCluster,
  ) {
    this.take(cluster);
  }

  take({ questions, asked }: OpenCluster) {
    [this.questions, this.asked] = [questions, asked];
  }

  /** Opens the box to teach in, or closes it; what was typed stays. */
  async toggle(): Promise<void> {
    this.open = !this.open;
    const [question] = this.questions;
    if (!this.open || !question) return;
    const { api, user } = this.around;
    const answer = await api.predict({ instances: [question.text], user, record: false }).catch(() => null);
    this.suggested = answer?.predictions[0]?.candidates.slice(0, SUGGESTED) ?? []; // without them there is the search
  }

  /** Words that could not be sent stay in the box. */
  async teach(text = this.draft): Promise<void> {
    const correction = text.trim();
    if (correction === '' || this.busy) return;
    const { api, live, user, newId } = this.around;
    const ids = this.questions.map(newId);
    const feedback = this.questions.map(({ predictions }, place) => ({
      id: ids[place]!,
      prediction_id: predictions[0]!, // all who asked so asked the same
      user,
      correction,
    }));
    const send = async () => Math.max(...(await api.giveAll(feedback)).map(({ offset }) => offset));
    this.change = new Change(live, send, `taught to ${counted(feedback.length, 'question')}`);
    if (!(await this.change.sent)) return;
    [this.taught, this.given, this.draft, this.open] = [correction, ids, '', false];
  }

  async undo(): Promise<void> {
    if (this.taught === null || this.busy) return;
    const { api, live } = this.around;
    const send = async () => {
      const receipts = [];
      for (const id of this.given) receipts.push(await api.retract(id));
      return Math.max(...receipts.map(({ offset }) => offset));
    };
    this.change = new Change(live, send, 'taken back', 'un-learned in');
    if (await this.change.sent) this.taught = null;
  }
}

export class Gaps {
  /** null until the service has answered. */
  shown = $state.raw<Gap[] | null>(null);
  problem = $state<string | null>(null);

  /** How many are yet to be closed. */
  openCount = $derived(this.shown?.filter(({ taught }) => taught === null).length ?? null);

  constructor(private around: Around) {}

  /** What somebody is at work on, or has worked on, stays where it is; the rest is as the service has it now. */
  async load(): Promise<void> {
    try {
      const clusters = await this.around.api.unanswered();
      const before = this.shown ?? [];
      const touched = before.filter(({ change, draft, open }) => change !== null || draft !== '' || open);
      const known = new Set(touched.flatMap(({ predictions }) => [...predictions]));
      for (const gap of touched) {
        const now = clusters.find((cluster) => isOf(cluster, gap.predictions));
        if (now && gap.taught === null) gap.take(now);
      }
      const fresh = clusters.filter((cluster) => !isOf(cluster, known)).map((cluster) => this.gapOf(cluster, before));
      this.shown = [...touched, ...fresh];
      this.problem = null;
    } catch (error) {
      this.problem = messageOf(error);
    }
  }

  /** The one that stood for it before, so that what has the focus keeps it. */
  private gapOf(cluster: OpenCluster, before: Gap[]): Gap {
    const gap = before.find(({ change, predictions }) => change === null && isOf(cluster, predictions));
    gap?.take(cluster);
    return gap ?? new Gap(this.around, cluster);
  }
}

const isOf = ({ questions }: OpenCluster, predictions: ReadonlySet<string>) =>
  questions.some((question) => question.predictions.some((id) => predictions.has(id)));
