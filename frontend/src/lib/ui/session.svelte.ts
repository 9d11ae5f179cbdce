/* Who the page speaks for, and what it may do.

   load (before anything else) -> caller, scopes -> what the page offers
   sign in, sign out -> a cookie that no script can read -> the page starts again
   a request refused with 401 or 403 -> load again
   without the service: as it answered last, until it answers
*/

import { createContext } from 'svelte';
import type { SessionApi } from '../api/session';
import { ApiError } from '../http';
import type { Scope, SessionAnswer } from '../schema';
import type { Pause } from './live_status.svelte';
import { t } from '../messages';
import { problemOf } from './problems';

const POLL_MS = 3000;
const UNAUTHORIZED = 401;
const TOO_MANY = 429;

/** What this browser remembers of the service. */
export interface Memory<T> {
  recall(): T | null;
  remember(value: T): void;
}

/** What becomes of a new reply that is taught: it is learned, held for review, or not accepted. */
export type Teaching = 'on' | 'review' | 'off';

/** What the page may do in the chat. */
export interface Rights {
  mayRate: boolean;
  mayCurate: boolean;
  teaching: Teaching;
}

interface Dependencies {
  api: SessionApi;
  pause: Pause;
  /** Returns the id of this browser, which is named where the service lets the page name a user. */
  browserId: () => string;
  /** Called after signing in and out. */
  restart: () => void;
  /** Delete what is kept for the caller who has signed out, before the page starts again. */
  forget?: (owner: string) => Promise<unknown>;
  memory?: Memory<SessionAnswer>;
}

export class Session implements Rights {
  /** null until the service has answered, or another time before. */
  answer = $state.raw<SessionAnswer | null>(null);
  problem = $state<string | null>(null);
  busy = $state(false);
  isDialogOpen = $state(false);
  /** Whether it ended by itself: it has expired, or its key was revoked. */
  hasEnded = $state(false);

  private isVisitor = $derived.by(() => this.split()[0] === 'visitor');
  isSignedIn = $derived(this.answer?.is_signed_in ?? false);
  mayPredict = $derived(this.may('predict'));
  mayRate = $derived(this.may('feedback'));
  mayTeach = $derived(this.may('teach'));
  mayCurate = $derived(this.may('curate'));
  mayOperate = $derived(this.may('operate'));
  teaching: Teaching = $derived.by(() => {
    if (!this.mayRate) return 'off';
    if (this.mayTeach || this.mayCurate) return 'on';
    return this.isVisitor && this.answer?.public_teaching === 'review' ? 'review' : 'off';
  });
  /** Whether a conversation can be shared by a link. */
  mayShare = $derived(this.answer?.share_conversations ?? false);
  /** Whether nothing can be done before signing in. */
  needsKey = $derived(this.answer !== null && !this.mayPredict);
  /** Whether a key could allow more. A proxy that names users, and this machine, have decided already. */
  canSignIn = $derived(
    this.answer !== null && !this.isSignedIn && (this.isVisitor || ['anonymous', 'open'].includes(this.answer.caller)),
  );
  /** The name of the key, or of the user that a proxy names; null for others. */
  name = $derived.by(() => {
    const [kind, name] = this.split();
    if (kind === 'admin') return 'admin';
    return kind === 'key' || kind === 'user' ? name : null;
  });
  /** The user to name in requests; undefined if the service finds it out by itself. */
  user = $derived.by(() => (this.answer?.may_name_user ? this.dependencies.browserId() : undefined));

  /** Identifies the caller, and the user whom this browser names: what is kept here belongs to one of them. null: not known yet. */
  owner = $derived.by(() => this.answer && JSON.stringify([this.answer.caller, this.user ?? null]));

  /** Resolves once predictions can be asked for: never, if that needs a key. */
  readonly usable: Promise<void>;

  private use = () => {};
  private loading: Promise<void> | null = null;

  constructor(private dependencies: Dependencies) {
    this.usable = new Promise((resolve) => (this.use = resolve));
  }

  may(scope: Scope): boolean {
    return this.answer?.scopes.includes(scope) ?? false;
  }

  /** Whether the service has a plugin, which answers some of the page's requests. */
  has(plugin: string): boolean {
    return this.answer?.plugins?.includes(plugin) ?? false; // what an older page has remembered has no plugins
  }

  /** Ask until the service answers. Calls meanwhile share the answer. */
  load = (): Promise<void> => {
    this.loading ??= this.ask().finally(() => (this.loading = null));
    return this.loading;
  };

  /** Return whether the key was accepted. */
  async signIn(key: string): Promise<boolean> {
    return this.change(() => this.dependencies.api.signIn(key));
  }

  async signOut(): Promise<boolean> {
    const { api, forget } = this.dependencies;
    const { owner } = this; // once signed out, it is somebody else
    return this.change(async () => {
      await api.signOut();
      if (owner !== null) await forget?.(owner).catch(() => {}); // the page is signed out all the same
    });
  }

  openDialog = () => {
    this.problem = null;
    this.isDialogOpen = true;
  };

  /** Ask once. Rejects if the service does not say. */
  confirm = async (): Promise<void> => {
    const { api, memory } = this.dependencies;
    const answer = await api.load();
    this.hasEnded = this.isSignedIn && !answer.is_signed_in;
    this.answer = answer;
    memory?.remember(answer);
    if (this.mayPredict) this.use();
  };

  private async ask() {
    const { memory, pause } = this.dependencies;
    const isConfirmed = () =>
      this.confirm().then(
        () => true,
        () => false,
      );
    while (!(await isConfirmed())) {
      this.answer ??= memory?.recall() ?? null;
      if (this.mayPredict) this.use();
      await pause(POLL_MS);
    }
  }

  private async change(send: () => Promise<unknown>): Promise<boolean> {
    if (this.busy) return false;
    [this.busy, this.problem] = [true, null];
    try {
      await send();
      this.dependencies.restart();
      return true;
    } catch (error) {
      this.problem = describeRefusal(error);
      return false;
    } finally {
      this.busy = false;
    }
  }

  private split(): [kind: string, name: string] {
    const [kind = '', ...rest] = (this.answer?.caller ?? '').split(':');
    return [kind, rest.join(':')];
  }
}

function describeRefusal(error: unknown): string {
  const { status = 0, retryAfter_s = null } = error instanceof ApiError ? error : {};
  if (status === UNAUTHORIZED) return t.session.wrongKey;
  if (status !== TOO_MANY) return problemOf(error);
  return retryAfter_s === null ? t.session.tooMany : t.session.tooManyUntil(retryAfter_s);
}

/** The session, for every component of the page. */
export const [getSession, setSession] = createContext<Session>();
