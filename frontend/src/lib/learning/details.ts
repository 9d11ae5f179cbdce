/* The tables at the end of the learning page: the members of an ensemble, and what was not learned or did not go live. */

import { t } from '../messages';
import type { Refusals, RejectedSnapshot } from '../schema';
import type { LiveStatus } from '../ui/live_status.svelte';
import type { Details } from '../ui/tables';
import { count, moment } from '../ui/wording';
import { membersOf } from './members';

const share = (percent: number | undefined) => (percent === undefined ? '–' : `${percent.toFixed(1)} %`);

/** The members of the live version. */
export function tabulateMembers({ versions, version: live }: LiveStatus): Details {
  const { title, note, table: label, columns, ...words } = t.learning.members;
  const members = membersOf(versions.find(({ version }) => version === live)?.metrics ?? {});
  return {
    ...{ title, note, label },
    columns: [
      [columns.name],
      [columns.accuracy, 'number'],
      [columns.recent, 'number'],
      [columns.vote, 'number'],
      [columns.state],
    ],
    rows: members.map(({ name, percent, recentPercent, votePercent, isServed, rests }) => [
      ...[name, share(percent), share(recentPercent), share(votePercent)],
      isServed ? words.served : rests ? words.rests : '',
    ]),
  };
}

export function tabulateRefusals(refusals: Refusals): Details {
  const { title, note, table: label, columns, offsets } = t.learning.refused;
  return {
    ...{ title, note: note(refusals.count, count(refusals.count)), label, heading: 1 },
    columns: [
      [columns.count, 'number'],
      [columns.reason, 'long'],
      [columns.offsets, 'number'],
    ],
    rows: refusals.groups.map(({ reason, count: events, first_offset: first, last_offset: last }) => [
      ...[count(events), reason],
      first === last ? count(first) : offsets(count(first), count(last)),
    ]),
  };
}

export function tabulateRejected(rejected: RejectedSnapshot[]): Details {
  const { title, note, table: label, columns } = t.learning.rejected;
  return {
    ...{ title, note, label },
    columns: [
      [columns.until, 'number'],
      [columns.reason, 'long'],
      [columns.times, 'number'],
      [columns.first, 'number'],
    ],
    rows: rejected.map(({ learned_until, until, times, reason, created_at }) => [
      `${count(learned_until)}${until > learned_until ? `–${count(until)}` : ''}`,
      ...[reason, count(times), moment(created_at)],
    ]),
  };
}
