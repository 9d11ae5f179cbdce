"""Gathers what the verdict on a model rests on: judged answers, the store, the snapshots and the learner.

curve, store, snapshots, live, learner --> Facts --assess--> Verdict

The API answers from `ModelMonitoring.assess`. The sender of alerts calls it repeatedly, to notice a change of the verdict.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from online.plugins.monitoring.curve import CurveCounts, CurveKeeper
from online.schemas.fields import Cause
from online.schemas.models import LearnerState
from online.scoring.drift_changes import (
    Alarm,
    AlarmGroup,
    JudgedAnswers,
    confirm_decline,
    group_alarms,
    is_over,
    join_fall,
)
from online.scoring.falls import (
    LEAST_RECOVERED,
    Decline,
    Fall,
    GuesserLead,
    find_decline,
    find_fall,
    find_lead,
    find_recovery,
)
from online.scoring.recent_outcomes import HEADLINE, KEPT, OutcomeSpan, RecentOutcomes
from online.scoring.verdict import DriftSummary, Verdict, VerdictInputs, assess
from online.serving.live import LiveModel, find_cause
from online.snapshots.roll_back import LastRollBack, RollBackInForce
from online.state.base_snapshot import missing_until
from online.store.drift_alarms import DriftAlarmRow, load_drift_alarms
from online.store.events import head_of
from online.store.feedback import load_first_time
from online.store.quarantine import QuarantineRow, load_open
from online.store.refusals import RejectedSnapshotRow, count_refusals, load_rejections

NEWEST_ALARMS = 200
NEWEST_EVENTS = 1_000  # of which refusals are counted


@dataclass(frozen=True, slots=True)
class Ratings:
    """The judgements of answers when feedback came. guessers: the naive guessers on the questions of `recent`. lifetime: of all.

    recent, since_held, recovery: as in `VerdictInputs`. changes: newest first; one that is the same event as the fall has its begin. noted_at: of each alarm.
    fall_suspect_from, suspect_from: from which offset on what was learned is as suspect as the fall, and each change.
    is_over: whether the newest change is. rolled_back: the last roll back; judged_since: the judgements since.
    """

    numbers: bool
    counted_until: int
    rated: int
    recent: OutcomeSpan | None
    lifetime: OutcomeSpan | None
    guessers: Mapping[str, OutcomeSpan]
    trend: Sequence[OutcomeSpan]
    fall: Fall | None
    fall_suspect_from: int | None
    decline: Decline | None
    lead: GuesserLead | None
    since_held: OutcomeSpan | None
    changes: Sequence[AlarmGroup]
    noted_at: Mapping[Alarm, str]
    suspect_from: Sequence[int]
    is_over: bool
    rolled_back: LastRollBack | None
    judged_since: OutcomeSpan | None
    recovery: OutcomeSpan | None


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """The facts in the store. fall_at, quarantine_at, rejected_at, drift_at: as in `VerdictInputs` and `DriftSummary`."""

    head: int
    waiting_since: str | None
    quarantine: QuarantineRow | None
    rejection: RejectedSnapshotRow | None
    refused: int
    fall_at: str | None
    quarantine_at: str | None
    rejected_at: str | None
    drift_at: str | None


@dataclass(frozen=True, slots=True)
class NewestFacts:
    """newest: the live version, or a newer one after a roll back. learned_until: what it has learned.

    older, held_until, previous: as in `VerdictInputs`.
    """

    newest: int
    learned_until: int
    older: int | None
    held_until: int
    previous: int


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """The verdict on a model, and what it rests on."""

    verdict: Verdict
    facts: VerdictInputs
    ratings: Ratings


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Assesses one model. read: runs a query on the store, off the event loop. clock: the present time."""

    model: str
    live: LiveModel
    curve: CurveKeeper
    read: Callable[[Callable[[Connection], Any]], Awaitable[Any]]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def assess(self, learner: LearnerState) -> ModelHealth:
        """Return the verdict now. Raises Unavailable if the store does not answer."""
        live, snapshots = self.live, self.live.snapshots
        served, recipe = live.current, live.encoder_config.recipe
        held = await asyncio.to_thread(snapshots.control.find_held)
        ratings = await self._rate(held)
        learned_until = max(served.learned_until, held.learned_until if held else 0)
        load = partial(load_facts, model=self.model, recipe=recipe, learned_until=learned_until, ratings=ratings)
        stored = await self.read(load)
        older = None
        if ratings.fall_suspect_from is not None:
            older = await asyncio.to_thread(
                snapshots.folder.newest_before, ratings.fall_suspect_from, recipe, served.version
            )
        versions = NewestFacts(
            held.newest if held else served.version,
            learned_until,
            older,
            held.held_until if held else 0,
            held.previous if held else 0,
        )
        facts = collect_facts(live, learner, ratings, stored, versions, self.clock())
        return ModelHealth(assess(facts), facts, ratings)

    async def rate(self) -> Ratings:
        """Return the figures that the verdict rests on. Raises Unavailable if the store does not answer."""
        return await self._rate(await asyncio.to_thread(self.live.snapshots.control.find_held))

    async def _rate(self, held: "RollBackInForce | None") -> Ratings:
        learned_until = self.live.current.learned_until
        alarms = await self.read(partial(load_drift_alarms, model=self.model, count=NEWEST_ALARMS))
        noted_at = {describe_alarm(row): row.noted_at for row in alarms}
        rolled_back = await asyncio.to_thread(self.live.snapshots.control.last_roll_back)
        ratings: Ratings = await self.curve.summarize(
            lambda counts: summarize_ratings(counts, learned_until, held, noted_at, rolled_back)
        )
        return ratings


def describe_alarm(row: DriftAlarmRow) -> Alarm:
    """Return the alarm of a row."""
    return Alarm(**row.model_dump(exclude={"model", "noted_at"}))


def summarize_ratings(
    counts: CurveCounts,
    learned_until: int,
    held: RollBackInForce | None,
    noted_at: Mapping[Alarm, str],
    rolled_back: LastRollBack | None = None,
) -> Ratings:
    """learned_until: of the live version. While a roll back is in force, only ratings of versions that had learned no more are judged.

    rolled_back: the last roll back. Once enough answers since are judged, what it ended no longer counts against the model.
    """
    recent = counts.recent if held is None else counts.recent.answered_by(learned_until)
    served = counts.tallies.get("served")
    decline, changes = find_decline(recent), group_alarms([*noted_at])
    fall = find_fall(recent) or confirm_decline(decline, changes, recent)
    fall, changes = join_fall(fall, changes, JudgedAnswers(recent.cells(1), recent.numbers))
    since = (
        RecentOutcomes(counts.numbers)
        if rolled_back is None
        else recent.after_roll_back(rolled_back.learned_until, rolled_back.since)
    )
    return Ratings(
        numbers=counts.numbers,
        counted_until=counts.until,
        rated=len(recent),
        recent=recent.newest() if fall is None else fall.after,
        lifetime=OutcomeSpan(served.judged, served.total / served.judged) if served is not None else None,
        guessers=recent.newest_guesses(HEADLINE if fall is None else fall.after.count),
        trend=recent.trend(),
        fall=fall,
        fall_suspect_from=None if fall is None else counts.recent.suspect_from(fall.begin),
        decline=decline,
        lead=find_lead(since if len(since) >= LEAST_RECOVERED else recent),
        since_held=None if held is None else recent.since(held.held_until),
        changes=changes,
        noted_at=noted_at,
        suspect_from=[counts.recent.suspect_from(change.since) for change in changes],
        is_over=bool(changes) and is_over(changes[0], recent),
        rolled_back=rolled_back,
        judged_since=since.newest(KEPT),
        recovery=find_recovery(recent, since, fall or decline),
    )


def load_facts(connection: Connection, model: str, recipe: str, learned_until: int, ratings: Ratings) -> StoredFacts:
    """Return what the store knows for a verdict."""
    head = head_of(connection, model)
    quarantine, rejection = load_open(connection, model), next(iter(load_rejections(connection, model, 1)), None)
    fall, changes = ratings.fall, ratings.changes

    def time_from(offset: int) -> str | None:
        return load_first_time(connection, model, offset - 1)

    return StoredFacts(
        head=head,
        waiting_since=load_first_time(connection, model, learned_until),
        quarantine=quarantine,
        rejection=rejection,
        refused=count_refusals(connection, model, recipe, after=head - NEWEST_EVENTS),
        fall_at=None if fall is None else time_from(fall.begin),
        quarantine_at=None if quarantine is None else time_from(quarantine.since),
        rejected_at=None if rejection is None else time_from(rejection.since),
        drift_at=time_from(changes[0].since) if changes else None,
    )


def collect_facts(
    live: LiveModel,
    learner: LearnerState,
    ratings: Ratings,
    stored: StoredFacts,
    versions: NewestFacts,
    now: datetime,
) -> VerdictInputs:
    """Collect what the verdict rests on."""
    learned_until, loaded, aside = versions.learned_until, live.current.loaded, live.set_aside
    rejection = stored.rejection if stored.rejection and stored.rejection.until > learned_until else None
    change = next(iter(ratings.changes), None)
    waiting_since = stored.waiting_since
    return VerdictInputs(
        numbers=ratings.numbers,
        recent=ratings.recent,
        rated=ratings.rated,
        fall=ratings.fall,
        fall_at=stored.fall_at,
        decline=ratings.decline,
        lead=ratings.lead,
        learner=learner.state,
        learner_reason=learner.reason,
        learner_cause=learner.cause,
        live=live.current.version,
        newest=versions.newest,
        previous=versions.previous,
        older=versions.older,
        held_until=versions.held_until,
        since_held=ratings.since_held,
        recovery=ratings.recovery,
        head=stored.head,
        learned_until=learned_until,
        waiting_s=0.0 if waiting_since is None else (now - datetime.fromisoformat(waiting_since)).total_seconds(),
        frozen_since=None if live.frozen is None else live.frozen.since,
        frozen_reason="" if live.frozen is None else live.frozen.reason,
        frozen_cause=None if live.frozen is None or live.frozen.cause is None else Cause(**live.frozen.cause),
        quarantine_since=None if stored.quarantine is None else stored.quarantine.since,
        quarantine_at=stored.quarantine_at,
        rejected=0 if rejection is None else rejection.times,
        rejected_since=0 if rejection is None else rejection.since,
        rejected_at=stored.rejected_at,
        rejected_reason="" if rejection is None else rejection.reason,
        refused=stored.refused,
        refused_of=min(stored.head, NEWEST_EVENTS),
        drift=None
        if change is None
        else DriftSummary(
            change.since, change.offset, change.main.what, len(change.alarms), stored.drift_at, ratings.is_over
        ),
        unservable=live.unservable,
        damaged=tuple(sorted(live.damaged)),
        learning_again=None if aside is None or aside.learned_again else aside.reason,
        learning_again_cause=None if aside is None else find_cause(aside),
        missing_until=0 if loaded is None else missing_until(loaded.manifest.metrics),
        counted_until=ratings.counted_until,
    )
