/* Tabs of one browser, and a service that can be unreachable, busy, or lose its answers. */

import { ApiError } from '../../src/lib/http';
import type { QueueApi } from '../../src/lib/api/offline';
import { Queue, type Opinion } from '../../src/lib/offline/queue.svelte';
import { Offline } from '../../src/lib/offline/offline.svelte';
import { MemoryStore, type OfflineStore } from '../../src/lib/offline/store';
import type { Connection } from '../../src/lib/ui/connection.svelte';
import type { FeedbackItem, FeedbackProgress, Receipt } from '../../src/lib/schema';

/** Learns each id once, as the service does. */
export class FakeService implements QueueApi {
  /** What is in its log, in order. */
  log: string[] = [];
  /** Errors of the next requests. */
  failures: ApiError[] = [];
  /** Errors of the next questions who asks. */
  confirmFailures: ApiError[] = [];
  /** Whether the next request is done, but its answer does not arrive. */
  losesAnswer = false;
  /** Whether requests after the lost answer are answered. */
  isReachableAfterwards = true;
  /** Called when something has arrived. */
  onRecord: () => void = () => {};
  requests = 0;
  caller = 'ada';
  isReachable = true;
  /** Why labels are refused. */
  refused = new Map<string, ApiError>();
  private receipts = new Map<string, Receipt>();

  async give(_: string, feedback: FeedbackItem): Promise<Receipt> {
    this.admit();
    const refusal = this.refused.get(String(feedback.label));
    if (refusal) throw refusal;
    return this.answer(this.record(feedback.id!, `${this.caller}: ${feedback.label}`, 'accepted'));
  }

  async retract(_: string, id: string): Promise<Receipt> {
    this.admit();
    if (!this.receipts.has(id)) throw new ApiError('there is no such feedback', 404);
    return this.answer(this.record(`${id}.retraction`, `retract ${id}`, 'retracted'));
  }

  async outcome(_: string, id: string): Promise<FeedbackProgress> {
    const receipt = this.receipts.get(id);
    if (receipt === undefined) throw new ApiError('there is no such feedback', 404);
    return { ...receipt, status: 'learned' };
  }

  /** Returns who asks. */
  async confirm(): Promise<string> {
    if (!this.isReachable) throw new ApiError('no answer');
    const failure = this.confirmFailures.shift();
    if (failure) throw failure;
    return this.caller;
  }

  /** Erase everything that is known of somebody's feedback. */
  erase() {
    this.receipts.clear();
  }

  private admit() {
    this.requests += 1;
    if (!this.isReachable) throw new ApiError('no answer');
    const failure = this.failures.shift();
    if (failure) throw failure;
  }

  private record(id: string, entry: string, status: Receipt['status']): Receipt {
    const known = this.receipts.get(id);
    if (known) return known;
    this.log.push(entry);
    this.onRecord();
    const receipt = { id, offset: this.log.length, status };
    this.receipts.set(id, receipt);
    return receipt;
  }

  private answer(receipt: Receipt): Receipt {
    if (!this.losesAnswer) return receipt;
    this.losesAnswer = false;
    this.isReachable = this.isReachableAfterwards;
    throw new ApiError('no answer');
  }
}

/** One browser: a store, and locks and news that its tabs share. */
export class Browser {
  readonly store: OfflineStore = new MemoryStore();
  /** How long the queues have waited between two attempts. */
  pauses: number[] = [];
  /** Whether tabs do not hear of each other. */
  isSilent = false;
  private listeners: (() => void)[] = [];
  private turn: Promise<void> = Promise.resolve();
  private ids = 0;

  constructor(readonly service: FakeService) {}

  /** signedInAs: who the page believes to speak for. */
  async openTab(signedInAs = 'ada'): Promise<Queue> {
    let caller = $state(signedInAs);
    let isMuted = false;
    const queue = new Queue({
      store: this.store,
      api: this.service,
      owner: () => caller,
      confirmOwner: async () => void (caller = await this.service.confirm()),
      isLost: () => !this.service.isReachable,
      exclusively: (work) => (this.turn = this.turn.then(work)),
      tabs: {
        announce: () => {
          isMuted = true;
          if (!this.isSilent) for (const listener of this.listeners) listener();
          isMuted = false;
        },
        listen: (onChange) => this.listeners.push(() => isMuted || onChange()),
      },
      newId: () => `n${++this.ids}`,
      now: () => new Date('2026-11-26T12:00:00Z'),
      pause: async (ms) => void this.pauses.push(ms),
    });
    await queue.reload();
    return queue;
  }
}

/** The opinion that a drawing shows a class. */
export const named = (label: string): Opinion => ({
  kind: 'name',
  title: label,
  body: { id: `f-${label}`, input: [1, 2], label },
  example: { input: [1, 2], label, reward: 1 },
});

/** Who the page speaks for, and whether it may keep a version. */
export function openCaller(mayKeep: boolean) {
  const caller = $state({ owner: 'ada', mayKeep });
  return caller;
}

export async function openBrowser() {
  const service = new FakeService();
  const browser = new Browser(service);
  return { service, browser, queue: await browser.openTab() };
}

/** What a page keeps, whose connection and caller the test changes. */
export async function openOffline() {
  const caller = openCaller(true);
  const connection = { lost: false, onRecovery: () => {} };
  const identity = {
    get owner() {
      return caller.owner;
    },
    confirm: (): Promise<void> => Promise.reject(new ApiError('no answer')),
  };
  const offline = await Offline.open(connection as unknown as Connection, identity);
  return { offline, caller, connection, identity };
}
