/* One answer of a language model, while it comes and afterwards, and the feedback about it. */

import type { BegunAnswer, FallbackApi } from '../api/fallback';
import type { RouteReasons, StoredFeedback, StoredGenerated, Thumb } from '../schema';
import { Feedback, type FeedbackContext } from '../ui/feedback.svelte';
import { Explanation } from './explanation.svelte';

export class GeneratedAnswer {
  id = $state('');
  /** The route that answers; "" until it is known. */
  route = $state('');
  text = $state('');
  isStreaming = $state(true);
  /** Whether it ended too early; not where the person has stopped it. */
  isCut = $state(false);
  feedbacks = $state<Feedback[]>([]);
  /** The feedback shown below the answer: the last one given or taken back. */
  latest = $state.raw<Feedback | null>(null);

  opinion = $derived(this.feedbacks.findLast(({ isActive }) => isActive) ?? null);
  reward = $derived(this.opinion && 'reward' in this.opinion.content ? this.opinion.content.reward : null);
  explanation = $derived.by(() => new Explanation<RouteReasons>(this.context, this.id));

  constructor(private context: FeedbackContext<FallbackApi>) {}

  static restore(context: FeedbackContext<FallbackApi>, stored: StoredGenerated): GeneratedAnswer {
    const answer = new GeneratedAnswer(context);
    [answer.id, answer.route, answer.text] = [stored.prediction_id, stored.route, stored.text];
    answer.isStreaming = false;
    for (const one of stored.feedback) answer.resume(one);
    return answer;
  }

  /** Take the pieces as they come. Rejects where it is cut. */
  async read({ route, pieces }: BegunAnswer): Promise<void> {
    this.route = route;
    for await (const { id, text } of pieces) {
      this.id = id;
      this.text += text;
    }
  }

  /** Rate it, in place of what was said about it before. */
  give(content: Thumb): Promise<void> {
    const feedback = this.feedback(content);
    const earlier = this.feedbacks.filter(({ isActive }) => isActive);
    this.add(feedback);
    return feedback.sendInsteadOf(earlier);
  }

  async retract(feedback: Feedback): Promise<void> {
    this.latest = feedback;
    await feedback.retract().catch(this.context.complain);
  }

  private resume(stored: StoredFeedback) {
    if (stored.reward == null) return; // its content was erased
    this.add(this.feedback({ reward: stored.reward < 0.5 ? 0 : 1 }, stored.id).resume(stored));
  }

  private add(feedback: Feedback) {
    this.feedbacks.push(feedback);
    this.latest = feedback;
  }

  private feedback(content: Thumb, id?: string): Feedback {
    const withoutRecheck = () => Promise.resolve(null); // the same question may go to another route
    return new Feedback(this.context, this.id, content, withoutRecheck, undefined, id);
  }
}
