/* Conversations that this device has answered, kept in this browser: the service does not know their turns.

     predict, answered here --add--> kept --list--> the list of conversations
                                          --find--> the conversation, when it is shown again

   A conversation may have turns of the service as well: then it is shown with all of them. Each is kept by itself, for
   the owner whom the page spoke for when the work began: null where that is not known, who has none.
*/

import type { ChatInstance } from '../api/chat';
import type { ConversationChange, StoredConversation, StoredTurn } from '../schema';
import type { KeptParts } from './offline.svelte';

const MAX_CONVERSATIONS = 50; // the newest; pinned ones stay
const MAX_TURNS = 200; // of each, the newest
const MAX_TITLE_CHARS = 80; // as the service has it

/** A turn that this device has answered. */
export interface LocalTurn extends StoredTurn {
  isLocal: true;
  instance: ChatInstance;
  /** The answer of the service that it follows; null for none. */
  known: string | null;
  /** The last feedback about it, by its id; null for none. */
  opinion: string | null;
}

/** isLocal: whether the service has no turn of it. */
export interface LocalConversation extends StoredConversation {
  isLocal: true;
  said: LocalTurn[];
  /** The local turns that turns of the service follow, by the ids of both: it does not know the former. */
  follows: Record<string, string>;
}

type Change = (one: LocalConversation) => LocalConversation | null;

export class LocalConversations {
  constructor(private parts: KeptParts) {}

  /** Those whose title or questions have the words, the newest first. */
  async list(owner: string | null, words: string): Promise<LocalConversation[]> {
    const wanted = words.toLowerCase();
    const all = await this.read(owner).catch(() => []); // the list of the service is shown all the same
    return all.filter(({ title, said }) =>
      [title, ...said.map(({ question }) => question ?? '')].some((text) => text.toLowerCase().includes(wanted)),
    );
  }

  async find(owner: string | null, id: string): Promise<LocalConversation | null> {
    return (await this.parts.find(owner, id).catch(() => null)) as LocalConversation | null;
  }

  /** What cannot be kept is answered all the same. */
  async add(owner: string | null, id: string, turn: LocalTurn): Promise<void> {
    let isNew = false;
    const add = (kept: unknown): LocalConversation => {
      isNew = kept === null;
      const before = (kept as LocalConversation | null) ?? begin(id, turn);
      const said = [...before.said, turn].slice(-MAX_TURNS);
      return { ...before, said, turns: said.length, updated_at: turn.created_at };
    };
    await this.parts
      .change(owner, id, add)
      .then(() => (isNew ? this.deleteOldest(owner) : undefined))
      .catch(() => {});
  }

  async rename(owner: string | null, id: string, change: ConversationChange): Promise<void> {
    await this.change(owner, id, (one) => ({ ...one, ...change }));
  }

  /** Note the last feedback about a turn. */
  async noteOpinion(owner: string | null, id: string, prediction: string, opinion: string) {
    const toNoted = (turn: LocalTurn) => (turn.prediction_id === prediction ? { ...turn, opinion } : turn);
    await this.change(owner, id, (one) => ({ ...one, said: one.said.map(toNoted) }));
  }

  /** Note that a turn of the service follows one of this device. */
  async noteFollowing(owner: string | null, id: string, prediction: string, after: string) {
    await this.change(owner, id, (one) => ({
      ...one,
      follows: { ...one.follows, [prediction]: after },
    }));
  }

  async delete(owner: string | null, id: string): Promise<void> {
    await this.change(owner, id, () => null);
  }

  /** The newest first. */
  private async read(owner: string | null): Promise<LocalConversation[]> {
    const all = (await this.parts.all(owner)) as LocalConversation[];
    return all.sort((one, other) => Date.parse(other.updated_at) - Date.parse(one.updated_at));
  }

  /** Change one that is kept. What cannot be kept is answered all the same. */
  private async change(owner: string | null, id: string, change: Change): Promise<void> {
    await this.parts.change(owner, id, (kept) => kept && change(kept as LocalConversation)).catch(() => {});
  }

  private async deleteOldest(owner: string | null) {
    const old = (await this.read(owner)).filter(({ pinned }) => !pinned).slice(MAX_CONVERSATIONS);
    for (const { id, updated_at } of old)
      // In another tab it may go on, or be pinned, meanwhile.
      await this.change(owner, id, (one) => (one.pinned || one.updated_at !== updated_at ? one : null));
  }
}

/** Whether the service has turns of a conversation, as far as is kept with it. */
export const isPartOfService = ({ said, follows }: LocalConversation): boolean =>
  Object.keys(follows).length > 0 || said.some(({ known }) => known !== null);

const begin = (id: string, { question, created_at }: LocalTurn): LocalConversation => ({
  id,
  title: (question ?? '').split(/\s+/).join(' ').slice(0, MAX_TITLE_CHARS),
  created_at,
  updated_at: created_at,
  turns: 0,
  pinned: false,
  share_id: null,
  shared_at: null,
  said: [],
  isLocal: true,
  follows: {},
});

/** The conversation with the turns of both, each after the one that it follows. */
export function merge(stored: StoredConversation, local: LocalConversation): StoredConversation {
  const ofService = stored.said.map((turn) => ({
    ...turn,
    after: local.follows[turn.prediction_id] ?? turn.after,
  }));
  return { ...stored, said: sortTurns([...ofService, ...local.said]) };
}

/** In the order of time, by two clocks that may differ: so each waits for the one that it follows. */
function sortTurns(turns: readonly StoredTurn[]): StoredTurn[] {
  const rest = [...turns].sort((one, other) => Date.parse(one.created_at) - Date.parse(other.created_at));
  const sorted: StoredTurn[] = [];
  while (rest.length > 0) {
    const place = rest.findIndex(({ after }) => !rest.some(({ prediction_id }) => prediction_id === after));
    sorted.push(...rest.splice(Math.max(place, 0), 1));
  }
  return sorted;
}
