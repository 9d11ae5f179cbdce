/* One client of an aggregation (Bonawitz et al. 2017). Its methods are called once each, in the order of the rounds.

   client                              service
   advertise  --public keys-->         collects them: the members
   share      --sealed shares-->       passes each on to whom it is for: the senders
   mask       --masked values-->       collects them: the survivors
   unmask     --shares of seeds-->     the sum of the survivors' values

   The protocol and its limits: `packages/online-federated/online_federated/secure_aggregation/`, whose bytes these are.
*/

import { AggregationFailed } from './errors.js';
import { addNumbers, type Layout } from './layout.js';
import {
  checkSupport,
  commit,
  concatenate,
  drawRandom,
  encodeText,
  expand,
  KEY_BYTES,
  KeyPair,
  seal,
  unseal,
  type Bytes,
  type RandomBytes,
} from './primitives.js';
import { SHARE_BYTES, splitSecret } from './shamir.js';

/** The parameters of one group. context: names it, so that no message of another one counts.
    threshold: shares that recover a secret, which is also the least number of survivors. */
export interface Group {
  context: Bytes;
  threshold: number;
  layout: Layout;
}

/** Of one client, X25519: for sealing shares, and for pairwise masks. */
export interface PublicKeys {
  sealing: Bytes;
  masking: Bytes;
}

/** Of one client. sealed: for each other member, by number. commitment: to the seed of its own mask. */
export interface SealedShares {
  sealed: Map<number, Bytes>;
  commitment: Bytes;
}

/** The shares that one client reveals, by the number of the client whose secret they are of.
    maskingKeys: of those whose values did not come. seeds: of those whose values came. */
export interface Unmasking {
  maskingKeys: Map<number, Bytes>;
  seeds: Map<number, Bytes>;
}

/** More than two thirds of the members: see `choose_threshold` of the service. */
const chooseThreshold = (count: number) => Math.floor((2 * count) / 3) + 1;

interface Joined {
  group: Group;
  number: number;
  keys: ReadonlyMap<number, PublicKeys>;
}

/** The secrets of one client, for one aggregation. Members are numbered from 1. */
export class AggregationClient {
  private joined: Joined | null = null;
  /** Of each sender's masking key and seed, for this client. */
  private readonly shares = new Map<number, [Bytes, Bytes]>();
  private stage: 'created' | 'shared' | 'masking' | 'masked' | 'revealed' = 'created';

  private constructor(
    private readonly random: RandomBytes,
    private readonly sealing: KeyPair,
    private readonly maskingSecret: Bytes,
    private readonly masking: KeyPair,
    private readonly seed: Bytes,
  ) {}

  /** random: a cryptographic source; that of WebCrypto by default. Refused where WebCrypto lacks X25519. */
  static async create(random: RandomBytes = drawRandom): Promise<AggregationClient> {
    await checkSupport();
    const [sealing, masking, seed] = [random(KEY_BYTES), random(KEY_BYTES), random(KEY_BYTES)];
    const pairs = await Promise.all([KeyPair.read(sealing), KeyPair.read(masking)]);
    return new AggregationClient(random, pairs[0], masking, pairs[1], seed);
  }

  advertise(): PublicKeys {
    return { sealing: this.sealing.publicKey, masking: this.masking.publicKey };
  }

  /** Split the secrets among the members. number: of this client. keys: of all members, by number.

      Refused if the members cannot be those of such a group. */
  async share(group: Group, number: number, keys: ReadonlyMap<number, PublicKeys>): Promise<SealedShares> {
    if (this.joined) throw new AggregationFailed('the secrets were shared before');
    checkMembers(group, number, keys, this.advertise());
    const joined = (this.joined = { group, number, keys: new Map(keys) });
    const split = (secret: Bytes) => splitSecret(secret, group.threshold, keys.size, this.random);
    const [masking, seeds] = [split(this.maskingSecret), split(this.seed)];
    const sealed = new Map<number, Bytes>();
    for (const other of keys.keys()) {
      const [own, seed] = [masking[other - 1]!, seeds[other - 1]!];
      if (other === number) this.shares.set(number, [own, seed]);
      else {
        const key = await this.agreeOnSealing(joined, number, other);
        sealed.set(other, await seal(key, concatenate(own, seed), group.context));
      }
    }
    this.stage = 'shared';
    return { sealed, commitment: await commit(this.seed) };
  }

  /** The masked values, packed. sealed: the shares of the others that have sent some, by their number.

      Refused if too few have, or if shares were changed. */
  async mask(sealed: ReadonlyMap<number, Bytes>, values: ArrayLike<number>): Promise<Bytes> {
    const { joined } = this;
    if (this.stage !== 'shared' || !joined)
      throw new AggregationFailed('values are masked once, after the secrets were shared');
    const { group, number, keys } = joined;
    const areMembers = [...sealed.keys()].every((other) => other !== number && keys.has(other));
    if (!areMembers || 1 + sealed.size < group.threshold)
      throw new AggregationFailed(
        `shares of ${1 + sealed.size} members came, and ${group.threshold} are needed; or some of no member`,
      );
    const total = group.layout.encode(values);
    this.stage = 'masking'; // before the first wait: the same masks for two sets of values would reveal their difference
    for (const [other, data] of sealed) {
      const key = await this.agreeOnSealing(joined, other, number);
      const shares = await unseal(key, data, group.context);
      if (shares.length !== 2 * SHARE_BYTES) throw new AggregationFailed('a sealed share has another length');
      this.shares.set(other, [shares.slice(0, SHARE_BYTES), shares.slice(SHARE_BYTES)]);
    }
    addNumbers(total, await expand(this.seed, group.layout.length), 1);
    for (const other of sealed.keys()) {
      const [low, high] = [Math.min(number, other), Math.max(number, other)];
      const pair = concatenate(encodeText(`online mask ${low} and ${high} `), group.context);
      const seed = await this.masking.agree(keys.get(other)!.masking, pair);
      addNumbers(total, await expand(seed, group.layout.length), number < other ? 1 : -1);
    }
    this.stage = 'masked';
    return group.layout.pack(total);
  }

  /** Reveal the shares that recover the sum of the survivors. Of no member both secrets are revealed.

      Refused if too few survive, or if it was asked before. */
  unmask(survivors: readonly number[]): Unmasking {
    const { joined } = this;
    const alive = new Set(survivors);
    if (this.stage !== 'masked' || !joined)
      throw new AggregationFailed('shares are revealed once, after the values were masked');
    const { threshold } = joined.group;
    const haveShared = [...alive].every((each) => this.shares.has(each));
    if (!haveShared || !alive.has(joined.number) || alive.size < threshold)
      throw new AggregationFailed(
        `${alive.size} members survive, and ${threshold} are needed, this one among them, of those that shared`,
      );
    this.stage = 'revealed';
    const revealed: Unmasking = { maskingKeys: new Map(), seeds: new Map() };
    for (const [member, [maskingKey, seed]] of this.shares)
      if (alive.has(member)) revealed.seeds.set(member, seed);
      else revealed.maskingKeys.set(member, maskingKey);
    return revealed;
  }

  /** The key with which `sender` seals its shares for `receiver`, one of whom is this client. */
  private agreeOnSealing({ group, number, keys }: Joined, sender: number, receiver: number): Promise<Bytes> {
    const partner = sender === number ? receiver : sender;
    const purpose = encodeText(`online share ${sender} to ${receiver} `);
    return this.sealing.agree(keys.get(partner)!.sealing, concatenate(purpose, group.context));
  }
}

function checkMembers(group: Group, number: number, keys: ReadonlyMap<number, PublicKeys>, own: PublicKeys): void {
  const places = Array.from({ length: keys.size }, (_, place) => keys.get(place + 1));
  const found = keys.get(number);
  const isMember = !!found && isEqual(found.sealing, own.sealing) && isEqual(found.masking, own.masking);
  if (!places.every(Boolean) || !isMember)
    throw new AggregationFailed('the members are not numbered from 1, or this client is not among them');
  const least = chooseThreshold(keys.size);
  if (!(group.threshold >= least && group.threshold <= keys.size))
    throw new AggregationFailed(`a threshold of ${group.threshold}, where ${keys.size} members need ${least} or more`);
  const all = [...keys.values()].flatMap(({ sealing, masking }) => [sealing, masking]);
  if (new Set(all.map(String)).size !== all.length) throw new AggregationFailed('two members have the same public key');
}

const isEqual = (one: Bytes, other: Bytes) => String(one) === String(other);
