/* How a feedback's life is told, step by step. Facts come in, sentences go out. */

import type { Reply } from './schema';

export interface Told {
  failed: string | null;
  saved: boolean;
  refused: string | null;
  learned: { version: string; freshness_ms: number | null } | null;
  undo: 'none' | 'asked' | 'saved' | 'learned';
  unlearnedIn: string | null;
  again: { reply: Reply | null } | null;
}

const learnedIn = ({ version, freshness_ms }: NonNullable<Told['learned']>) =>
  freshness_ms === null
    ? `learned in version ${version}`
    : `learned in version ${version}, ${milliseconds(freshness_ms)} later`;

const askedAgain = ({ reply }: NonNullable<Told['again']>) =>
  reply ? `asked again, I would say: “${reply.text}”` : 'asked again, I would say that I don\'t know yet';

export function milliseconds(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function tell(told: Told): string[] {
  if (told.failed !== null) return [`not saved: ${told.failed}`];
  if (told.undo !== 'none') return tellUndo(told);
  if (!told.saved) return ['saving…'];
  if (told.refused !== null) return ['saved', `not learned: ${told.refused}`];
  if (!told.learned) return ['saved'];
  return ['saved', learnedIn(told.learned), ...(told.again ? [askedAgain(told.again)] : [])];
}

function tellUndo({ undo, unlearnedIn, again }: Told): string[] {
  if (undo === 'asked') return ['taking it back…'];
  if (undo === 'saved') return ['taken back'];
  return ['taken back', `un-learned in version ${unlearnedIn}`, ...(again ? [askedAgain(again)] : [])];
}
