/* Conversations that this device has answered, kept in this browser: the service does not know their turns.

     predict, answered here --add--> kept --list--> the list of conversations
                                          --find--> the conversation, when it is shown again

   A conversation may have turns of the service as well: then it is shown with all of them.
*/

import type { ChatInstance } from '../api';
import type { ConversationChange, StoredConversation, StoredTurn } from '../schema';
import type { Offline } from './offline.svelte';

const NAME = 'conversations';
const MAX_CONVERSATIONS = 50; // the newest
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

export class LocalConversations {
  /** One change after the other. */
  private changing: Promise<void> = Promise.resolve();

  constructor(
    private offline: Pick<Offline, 'remember' | 'recall'>,
    private model: string,
  ) {}

  /** Those whose title or questions have the words, the newest first. */
  async list(words: string): Promise<LocalConversation[]> {
    const wanted = words.toLowerCase();
    return (await this.readIfPossible()).filter(({ title, said }) =>
      [title, ...said.map(({ question }) => question ?? '')].some((text) =>
        text.toLowerCase().includes(wanted),
      ),
    );
  }

  async find(id: string): Promise<LocalConversation | null> {
    return (await this.readIfPossible()).find((one) => one.id === id) ?? null;
  }

  add(id: string, turn: LocalTurn): Promise<void> {
    return this.change((all) => {
      const before = all.find((one) => one.id === id) ?? begin(id, turn);
      const said = [...before.said, turn].slice(-MAX_TURNS);
      const changed = { ...before, said, turns: said.length, updated_at: turn.created_at };
      return [changed, ...all.filter((one) => one.id !== id)].slice(0, MAX_CONVERSATIONS);
    });
  }

  rename(id: string, change: ConversationChange): Promise<void> {
    return this.change((all) => all.map((one) => (one.id === id ? { ...one, ...change } : one)));
  }

  /** Note the last feedback about a turn. */
  noteOpinion(prediction: string, opinion: string): Promise<void> {
    const toNoted = (turn: LocalTurn) =>
      turn.prediction_id === prediction ? { ...turn, opinion } : turn;
    return this.change((all) => all.map((one) => ({ ...one, said: one.said.map(toNoted) })));
  }

  /** Note that a turn of the service follows one of this device. */
  noteFollowing(id: string, prediction: string, after: string): Promise<void> {
    return this.change((all) =>
      all.map((one) =>
        one.id === id ? { ...one, follows: { ...one.follows, [prediction]: after } } : one,
      ),
    );
  }

  delete(id: string): Promise<void> {
    return this.change((all) => all.filter((one) => one.id !== id));
  }

  /** The list of the service is shown all the same. */
  private readIfPossible(): Promise<LocalConversation[]> {
    return this.read().catch(() => []);
  }

  private async read(): Promise<LocalConversation[]> {
    return (await this.offline.recall<LocalConversation[]>(NAME, this.model)) ?? [];
  }

  private change(change: (all: LocalConversation[]) => LocalConversation[]): Promise<void> {
    this.changing = this.changing
      .then(async () => this.offline.remember(NAME, this.model, change(await this.read())))
      .catch(() => {}); // what cannot be kept is answered all the same
    return this.changing;
  }
}

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
  const rest = [...turns].sort(
    (one, other) => Date.parse(one.created_at) - Date.parse(other.created_at),
  );
  const sorted: StoredTurn[] = [];
  while (rest.length > 0) {
    const place = rest.findIndex(
      ({ after }) => !rest.some(({ prediction_id }) => prediction_id === after),
    );
    sorted.push(...rest.splice(Math.max(place, 0), 1));
  }
  return sorted;
}
