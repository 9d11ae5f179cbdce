/* Questions that get no reply, grouped by meaning. Each group can be taught one reply at once.

   unanswered -> QuestionCluster -> teach -> one correction per question, in one request -> learned
                                         \-> undo -> all corrections taken back
*/

import type { RepertoireApi } from '../api/repertoire';
import { Change } from './change.svelte';
import type { LiveStatus } from '../ui/live_status.svelte';
import type { Candidate, OpenCluster, OpenQuestion, ReplySummary } from '../schema';
import type { Pause } from '../ui/live_status.svelte';
import { Newest } from '../ui/newest';
import { problemOf } from '../ui/problems';
import { t } from '../messages';
import { count } from '../ui/wording';

const SUGGESTED = 3;
const MAX_FOUND = 5;
const MAX_WORDS = 200; // characters of a search
const MAX_DISMISSED = 500;

interface Dependencies {
  api: RepertoireApi;
  live: LiveStatus;
  newId: () => string;
  pause: Pause;
}

export class QuestionCluster {
  questions = $state.raw<OpenQuestion[]>([]);
  /** Replies that wait in a group of the inbox; null for none. */
  waiting = $state.raw<{ group: string; suggestions: number } | null>(null);
  open = $state(false);
  draft = $state('');
  /** The candidates with the highest scores. */
  suggested = $state.raw<Candidate[]>([]);
  /** Replies with the words of the draft. */
  found = $state.raw<ReplySummary[]>([]);
  /** The reply taught to its questions; null for none or one taken back. */
  taught = $state<string | null>(null);
  change = $state.raw<Change | null>(null);

  busy = $derived(this.change !== null && !this.change.saved && this.change.failed === null);
  predictions = $derived(new Set(this.questions.flatMap(({ predictions }) => predictions)));

  private feedbackIds: string[] = [];
  private newest = new Newest();

  constructor(
    private context: Dependencies,
    cluster: OpenCluster,
  ) {
    this.update(cluster);
  }

  update({ questions, inbox_group: group, suggestions }: OpenCluster) {
    this.questions = questions;
    this.waiting = group === null ? null : { group, suggestions };
  }

  /** Open or close the form. Its text stays. */
  async toggle(): Promise<void> {
    this.open = !this.open;
    const [question] = this.questions;
    if (!this.open || !question) return;
    const { api } = this.context;
    const answer = await api.predict({ instances: [question.text], record: false }).catch(() => null);
    this.suggested = answer?.predictions[0]?.candidates.slice(0, SUGGESTED) ?? []; // optional: replies can be searched as well
  }

  /** Change the text, and search for replies with its words after a pause in typing. */
  async write(draft: string): Promise<void> {
    this.draft = draft;
    const q = draft.trim().slice(0, MAX_WORDS);
    if (q === '') this.found = [];
    const signal = await this.newest.beginAfterTyping(this.context.pause);
    if (q === '' || signal === null) return;
    const answer = await this.context.api.replies({ q, limit: MAX_FOUND }, signal).catch(() => null); // optional: a reply can be written as well
    if (!signal.aborted) this.found = answer?.replies ?? [];
  }

  /** Teach the reply to every question. Text that could not be sent stays in the box. */
  async teach(text = this.draft): Promise<void> {
    const correction = text.trim();
    if (correction === '' || this.busy) return;
    const { api, live, newId } = this.context;
    const ids = this.questions.map(newId);
    const feedback = this.questions.map(({ predictions }, place) => ({
      id: ids[place]!,
      prediction_id: predictions[0]!, // all predictions of a question have the same text
      correction,
    }));
    const send = async () => Math.max(...(await api.giveAll(feedback)).map(({ offset }) => offset));
    this.change = new Change(live, send, t.repertoire.steps.taught(feedback.length, count(feedback.length)));
    if (!(await this.change.sent)) return;
    [this.taught, this.feedbackIds, this.draft, this.open] = [correction, ids, '', false];
  }

  async undo(): Promise<void> {
    if (this.taught === null || this.busy) return;
    const { api, live } = this.context;
    const send = async () => {
      const receipts = [];
      for (const id of this.feedbackIds) receipts.push(await api.retract(id));
      return Math.max(...receipts.map(({ offset }) => offset));
    };
    this.change = new Change(live, send, t.repertoire.steps.takenBack, t.ui.progress.unlearned);
    if (await this.change.sent) this.taught = null;
  }
}

export class UnansweredQuestions {
  /** null until the service has answered. */
  shown = $state.raw<QuestionCluster[] | null>(null);
  problem = $state<string | null>(null);

  /** Number of clusters without a reply. */
  openCount = $derived(this.shown?.filter(({ taught }) => taught === null).length ?? null);

  constructor(private context: Dependencies) {}

  /** Reload the clusters. Those that the user has touched keep their place and state. */
  async load(): Promise<void> {
    try {
      const clusters = await this.context.api.unanswered();
      const before = this.shown ?? [];
      const touched = before.filter(({ change, draft, open }) => change !== null || draft !== '' || open);
      const known = new Set(touched.flatMap(({ predictions }) => [...predictions]));
      for (const shown of touched) {
        const now = clusters.find((cluster) => overlaps(cluster, shown.predictions));
        if (now && shown.taught === null) shown.update(now);
      }
      const fresh = clusters
        .filter((cluster) => !overlaps(cluster, known))
        .map((cluster) => this.reuse(cluster, before));
      this.shown = [...touched, ...fresh];
      this.problem = null;
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  /** Let a cluster that needs no reply stay away. Return what takes it back; null if it failed. */
  async dismiss(cluster: QuestionCluster): Promise<(() => Promise<void>) | null> {
    const { api } = this.context;
    const newest = cluster.questions.flatMap(({ predictions }) => predictions.slice(0, 1));
    try {
      const { decision } = await api.dismiss(newest.slice(0, MAX_DISMISSED));
      this.shown = this.shown?.filter((one) => one !== cluster) ?? null;
      return async () => {
        await api.undoDismissal(decision);
        await this.load();
      };
    } catch (error) {
      this.problem = problemOf(error);
      return null;
    }
  }

  /** Return the object that shows the cluster already, so that the focus is kept, or a new one. */
  private reuse(cluster: OpenCluster, before: QuestionCluster[]): QuestionCluster {
    const shown = before.find(({ change, predictions }) => change === null && overlaps(cluster, predictions));
    shown?.update(cluster);
    return shown ?? new QuestionCluster(this.context, cluster);
  }
}

const overlaps = ({ questions }: OpenCluster, predictions: ReadonlySet<string>) =>
  questions.some((question) => question.predictions.some((id) => predictions.has(id)));
