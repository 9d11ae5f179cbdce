/* A member of a cohort over REST: `POST .../members` once, then in each round what the service waits for.

   join --> member --advance(values)--> state: joining, sharing, masking, unmasking, adding, done or failed
*/

import { AggregationClient, type Group, type PublicKeys, type SealedShares, type Unmasking } from './client.js';
import { AggregationFailed, UnexpectedAnswer } from './errors.js';
import { Layout } from './layout.js';
import { fromBase64, toBase64, type Bytes, type RandomBytes } from './primitives.js';

/** Where a cohort is. */
export interface CohortAddress {
  /** The URL of the service; "" for that of the page. */
  service: string;
  model: string;
  id: string;
  /** Sent with every request, such as { Authorization: 'Bearer KEY' }. */
  headers?: Record<string, string>;
  /** On whose behalf: for a key that may name users. */
  user?: string;
  /** In place of the global one. */
  fetch?: typeof fetch;
}

const STATES = ['joining', 'sharing', 'masking', 'unmasking', 'adding', 'done', 'failed'] as const;

export type CohortState = (typeof STATES)[number];

/** What all members agree on. */
export interface Cohort {
  parameters: { classes: string[]; max_examples: number };
  /** Features, D. */
  width: number;
  /** How inputs become features. */
  features: Record<string, unknown>;
  /** (length, bits) of each part of the values. */
  segments: [number, number][];
}

/** How far a cohort is. reason: why it has failed. */
export interface Progress {
  state: CohortState;
  reason: string | null;
}

interface Membership {
  number: number;
  token: string;
  context: string;
}

type ByNumber = Record<string, string>;

interface MemberAnswer {
  state: CohortState;
  threshold?: number;
  keys?: Record<string, { sealing: string; masking: string }>;
  sealed?: ByNumber;
  survivors?: number[];
  reason?: string;
}

const MAX_FIELDS = 10; // of an answer, in a message

type Round = 'shares' | 'values' | 'unmasking';

// The fields by which an answer of the service is told from that of something else, such as a proxy.
const isCohort = ({ parameters, segments }: Partial<Cohort>) =>
  Array.isArray(parameters?.classes) && Array.isArray(segments);

const isMembership = ({ number, token, context }: Partial<Membership>) =>
  Number.isInteger(number) && typeof token === 'string' && typeof context === 'string';

const isMemberAnswer = ({ state }: Partial<MemberAnswer>) => STATES.some((known) => known === state);

/** Whether a member has what it needs to write the message of a round. */
const hasFields = ({ state, threshold, keys, survivors }: MemberAnswer) =>
  state === 'sharing'
    ? typeof threshold === 'number' && keys != null
    : state !== 'unmasking' || Array.isArray(survivors);

const ROUNDS: Partial<Record<CohortState, Round>> = {
  sharing: 'shares',
  masking: 'values',
  unmasking: 'unmasking',
};

export class CohortMember {
  /** The message of each round: once made, it is sent again as it is. */
  private readonly messages = new Map<Round, Promise<unknown>>();
  private readonly taken = new Set<Round>();

  private constructor(
    private readonly address: CohortAddress,
    private readonly client: AggregationClient,
    private readonly membership: Membership,
    /** What the values must be of: the classes in their order, and the features. */
    readonly cohort: Cohort,
  ) {}

  /** Join with new keys. random: a cryptographic source; that of WebCrypto by default.

      Raises AggregationFailed where WebCrypto lacks X25519, or if the service refuses; UnexpectedAnswer for an answer
      that is not of the service. */
  static async join(address: CohortAddress, random?: RandomBytes): Promise<CohortMember> {
    const client = await AggregationClient.create(random);
    const cohort = await request<Cohort>(address, isCohort, 'GET', '');
    const { sealing, masking } = client.advertise();
    const keys = { sealing: toBase64(sealing), masking: toBase64(masking) };
    const user = address.user === undefined ? '' : `?user=${encodeURIComponent(address.user)}`;
    const membership = await request<Membership>(address, isMembership, 'POST', `/members${user}`, keys);
    return new CohortMember(address, client, membership, cohort);
  }

  /** Do what the present round asks of this member, at most once; say how far the cohort is. Call it again until the
      state is `done` or `failed`, also after an error of the network and an UnexpectedAnswer.

      values: counts [2, C], sums [2, C, D] and the upper triangle of the Gram matrix, one after the other. */
  async advance(values: ArrayLike<number>): Promise<Progress> {
    const answer = await this.request('GET', '');
    const round = ROUNDS[answer.state];
    if (round === undefined || this.taken.has(round)) return describe(answer);
    let message = this.messages.get(round);
    if (!message) {
      if (!hasFields(answer)) throw unexpected('GET', answer);
      this.messages.set(round, (message = this.write(round, answer, values)));
    }
    const next = await this.request('PUT', `/${round}`, await message);
    this.taken.add(round);
    return describe(next);
  }

  private write(round: Round, answer: MemberAnswer, values: ArrayLike<number>): Promise<unknown> {
    if (round === 'shares') return this.share(answer);
    return round === 'values' ? this.mask(answer, values) : this.unmask(answer);
  }

  private async share({ threshold = 0, keys = {} }: MemberAnswer): Promise<unknown> {
    const { context, number } = this.membership;
    const layout = new Layout(this.cohort.segments.map(([length, bits]) => ({ length, bits })));
    const group: Group = { context: fromBase64(context), threshold, layout };
    const members = new Map<number, PublicKeys>();
    for (const [member, { sealing, masking }] of Object.entries(keys))
      members.set(Number(member), { sealing: fromBase64(sealing), masking: fromBase64(masking) });
    const { sealed, commitment }: SealedShares = await this.client.share(group, number, members);
    return { sealed: encodeEach(sealed), commitment: toBase64(commitment) };
  }

  private async mask({ sealed }: MemberAnswer, values: ArrayLike<number>): Promise<unknown> {
    if (!sealed) throw new AggregationFailed('this member has dropped out: its shares did not come in time');
    this.checkCount(values);
    const shares = new Map<number, Bytes>();
    for (const [sender, share] of Object.entries(sealed)) shares.set(Number(sender), fromBase64(share));
    return { packed: toBase64(await this.client.mask(shares, values)) };
  }

  private async unmask({ survivors = [] }: MemberAnswer): Promise<unknown> {
    const { maskingKeys, seeds }: Unmasking = this.client.unmask(survivors);
    return { masking_keys: encodeEach(maskingKeys), seeds: encodeEach(seeds) };
  }

  /** Refuse more examples than the bits of the total are made for. */
  private checkCount(values: ArrayLike<number>): void {
    const { classes, max_examples: most } = this.cohort.parameters;
    const counts = Array.from({ length: 2 * classes.length }, (_, place) => values[place] ?? 0);
    const count = counts.reduce((sum, each) => sum + each, 0);
    if (count > most)
      throw new AggregationFailed(`the values are of ${count} examples, and a member of this cohort may have ${most}`);
  }

  private request(method: string, path: string, body?: unknown): Promise<MemberAnswer> {
    const { number, token } = this.membership;
    return request(this.address, isMemberAnswer, method, `/members/${number}${path}`, body, {
      'X-Cohort-Token': token,
    });
  }
}

const describe = ({ state, reason }: MemberAnswer): Progress => ({
  state,
  reason: reason ?? null,
});

const encodeEach = (shares: ReadonlyMap<number, Bytes>): ByNumber =>
  Object.fromEntries([...shares].map(([number, share]) => [number, toBase64(share)]));

/** Names the fields alone: their values may be secret. */
function unexpected(method: string, answer: object | null): UnexpectedAnswer {
  const fields = answer && Object.keys(answer).slice(0, MAX_FIELDS).join(', ');
  const shown = fields === null ? 'no JSON' : `JSON with the fields (${fields})`;
  return new UnexpectedAnswer(
    `${method} was answered with ${shown}, which is no answer of a cohort: repeat it, and look for a proxy in between`,
  );
}

/** The JSON that the service answers. Raises AggregationFailed with its status and reason if it refuses, UnexpectedAnswer
    where something else than the service has answered. */
async function request<T>(
  address: CohortAddress,
  isExpected: (answer: Partial<T>) => boolean,
  method: string,
  path: string,
  body?: unknown,
  own: Record<string, string> = {},
): Promise<T> {
  const { service, model, id } = address;
  const url = `${service}/v1/models/${encodeURIComponent(model)}/cohorts/${encodeURIComponent(id)}${path}`;
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const type = body === undefined ? {} : { 'Content-Type': 'application/json' };
  const headers = { ...address.headers, ...type, ...own };
  const response = await (address.fetch ?? fetch)(url, { method, headers, ...content });
  const answer = (await response.json().catch(() => null)) as (T & { error?: string }) | null;
  if (response.ok && answer !== null && isExpected(answer)) return answer;
  if (response.ok) throw unexpected(method, answer);
  const reason = answer?.error ?? 'no reason was given';
  throw new AggregationFailed(`the service answered ${response.status}: ${reason}`, response.status);
}
