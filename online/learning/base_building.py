"""Makes the base of a model: learns the events that have expired once more, beside the learner, a page at a time.

    base of before, or nothing --expired events, a page a step--> a training state --all learned--> the new base

It happens in this order, so that it may be killed at any point:

1. The events are closed: from then on none of them is retracted. Those that are retracted already are not learned.
2. The base is built, while the learner learns the retractions that there are, and makes them durable.
3. The base is published, and on the disk. Only now may the service remove the contents of the events.

Where several replicas share the store, one of them makes the base, and the others take it over (online/state/shared_base.py).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from online.errors import CorruptSnapshot, LearningLost, Unavailable
from online.learning.feedback_counts import FeedbackCounts
from online.learning.training_state import TrainingState
from online.models import State
from online.models.devices.determinism import determinism_domain
from online.models.devices.placement import first_device
from online.schemas.events import Event
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.state.base_snapshot import (
    CLOSED_AT,
    HISTORY,
    MISSING_UNTIL,
    closed_at,
    find_base,
    history_count,
    load_base,
    missing_until,
)
from online.state.shared_base import SharedBase
from online.store import Store, now
from online.store.deletion.event_expiry import (
    EventExpiry,
    close_events,
    find_expired_until,
    list_retracted,
    load_expiry,
)
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.learner")

PAGE = 256  # entries of one step, which delay an entry that arrives meanwhile
CHECK_EVERY_S = 60.0  # whether events have expired
BASES_PER_RETENTION = (
    20  # contents are kept for up to a twentieth of the retention longer, and bases are made as rarely
)
RETRACTED = "retracted"  # why a base does not learn an event


@dataclass(frozen=True, slots=True)
class RetentionPeriod:
    """The time for which the contents of events are kept. clock: the time of the day, by which they age."""

    days: float
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    check_every_s: float = CHECK_EVERY_S


@dataclass(slots=True)
class UnfinishedBase:
    """A base that is being built. until, closed_at: as B and H in online/state/base_snapshot.py. parent: the version of the base that it continues."""

    training: TrainingState
    counts: FeedbackCounts
    until: int
    closed_at: int
    parent: int | None = None
    is_waiting: bool = False

    @property
    def room(self) -> int:
        """How many entries may be learned next."""
        return min(PAGE, self.until - self.training.learned_until)


class Bases:
    """The base of one model, for its learner: what learning starts from, and how the next one is made."""

    def __init__(
        self,
        snapshots: Snapshots,
        store: Store,
        recipe: str,
        create_training: Callable[[], TrainingState],
        create_counts: Callable[[], FeedbackCounts],
        retention: RetentionPeriod | None,
        clock: Callable[[], float],
    ) -> None:
        """create_training: gives one that has learned nothing. clock: monotonic seconds."""
        self.snapshots, self.store, self.recipe = snapshots, store, recipe
        self.create_training, self.create_counts = create_training, create_counts
        self.retention, self.clock = retention, clock
        self.shared = SharedBase(snapshots, store, recipe)
        self.building: UnfinishedBase | None = None
        self._next_check = 0.0
        self._damaged: set[int] = set()  # versions of bases
        self._outage = OutageLog(log, "no base was made", model=snapshots.model)

    # what learning starts from

    def sync(self) -> None:
        """Take over the base that another replica has made, if any. Raises Unavailable."""
        if self.shared.sync():
            self._damaged.clear()

    def check_contents(self, entries: Sequence[Event], after: int, missing_until: int) -> None:
        """Raise LearningLost if contents of entries were removed before they were learned: another replica's base has learned them.

        after: the offset until which was learned. missing_until: what is known to be missing.
        """
        if not self.store.is_shared or not any(entry.kind == "void" for entry in entries):
            return
        model = self.snapshots.model
        expiry: EventExpiry = self.store.read(lambda connection: load_expiry(connection, model))
        if expiry.removing_until > max(after, missing_until):
            raise LearningLost(
                f"contents of events of {model} until offset {expiry.removing_until} have expired, and were learned here until "
                f"{after} only: learning goes on from the base in the store"
            )

    def find_resumable_from(self) -> int:
        """Return the offset that a snapshot must have learned for learning to resume from it.

        One that had learned less would lack events whose contents are gone, or retractions of them.
        """
        base, model = self.find(), self.snapshots.model
        expiry: EventExpiry = self.store.read(lambda connection: load_expiry(connection, model))
        return max(expiry.removing_at, closed_at(base) if base is not None else 0)

    def start(self) -> tuple[TrainingState, FeedbackCounts]:
        """Return a training state, and its counts, as far as the base has learned; without a base, one of nothing.

        What it can no longer learn because the contents are gone, it has as `missing_until`.
        """
        training, counts = self.create_training(), self.create_counts()
        base = self._load(lambda parts: training.restore(parts))
        if base is None:
            training, counts = self.create_training(), self.create_counts()  # a damaged base may be half restored
            training.missing_until = self._find_removed_until()
            self._report_unread_history()
            return training, counts
        training.learned_until, training.log_digest = base.learned_until, base.log_digest
        training.taught_until = base.taught_until
        training.missing_until = missing_until(base.metrics)
        training.refused |= self._find_retracted(base.learned_until, closed_at(base))
        counts.load(dict(base.metrics))
        return training, counts

    def restart(self, training: TrainingState) -> int:
        """Bring a new model to where the base is; return the offset until which that has learned."""
        base = self._load(training.restore_model)
        if base is not None:
            return base.learned_until
        training.model = training.create_model()
        if removed_until := self._find_removed_until():
            training.missing_until = removed_until
            self.report_missing(training)
        return 0

    def report_missing(self, training: TrainingState) -> None:
        """Log that a state lacks what has expired, if it does."""
        if training.missing_until:
            log_event(
                log,
                "learning what is left of the log",
                logging.ERROR,
                model=self.snapshots.model,
                missing_until=training.missing_until,
                reason="contents of older events have expired (event_retention_days), and no snapshot of this kind "
                "and these options has learned them",
            )

    def _report_unread_history(self) -> None:
        """Log that a history was loaded for another kind or other options, and is not part of what is learned."""
        bases = self.snapshots.base().folder.manifests() if self.snapshots.has_base else []
        if any(history_count(each) and each.recipe != self.recipe for each in bases):
            reason = "it was summed for another kind or other options: load its files again"
            log_event(log, "the loaded history is not used", logging.ERROR, model=self.snapshots.model, reason=reason)

    def find(self) -> Manifest | None:
        """Return the manifest of the base, unless it is known to be damaged."""
        base: Manifest | None = self.store.read(lambda connection: find_base(connection, self.snapshots, self.recipe))
        return None if base is None or base.version in self._damaged else base

    def find_end(self) -> tuple[int, str]:
        """Return where the log goes on after the base: the offset, and the digest there."""
        base = self.find()
        return (0, "") if base is None else (base.learned_until, base.log_digest)

    def _load(self, restore: Callable[[State], None], may_fetch: bool = True) -> Manifest | None:
        base = self.find()
        if base is None:
            return None
        try:
            restore(load_base(self.snapshots, base).parts)
        except Exception as error:  # any defect: as if there were no base
            self._damaged.add(base.version)
            reason = f"{type(error).__name__}: {error}"
            log_event(log, "the base is damaged", logging.ERROR, model=self.snapshots.model, reason=reason)
            if not may_fetch or not self.shared.sync(is_damaged=True):
                return None
            self._damaged.clear()
            return self._load(restore, may_fetch=False)
        return base

    def _find_removed_until(self) -> int:
        expiry: EventExpiry = self.store.read(lambda connection: load_expiry(connection, self.snapshots.model))
        return expiry.removing_until if self.store.is_shared else expiry.removed_until

    def _find_retracted(self, after: int, until: int) -> dict[int, str]:
        """Return the events that retractions in (after, until] take back, as `refused` of a training state."""
        retracted = self.store.read(lambda connection: list_retracted(connection, self.snapshots.model, after, until))
        return dict.fromkeys(retracted, RETRACTED)

    # how the next one is made

    @property
    def is_busy(self) -> bool:
        """Whether a base is being built and may go on."""
        building = self.building
        return building is not None and building.room > 0 and not building.is_waiting

    def advance(self, read: Callable[[int, TrainingState], Sequence[Event]], durable_until: int) -> None:
        """Do the next piece of a base that is due. read: gives the next entries of a state.

        durable_until: the offset until which a durable snapshot has learned. An error is logged, and it is tried again.
        """
        if self.retention is None:
            return
        try:
            self._advance(self.retention, read, durable_until)
        except LearningLost:  # another replica was first: its base is taken over at the next check
            self.building = None
        except Unavailable:
            raise
        except Exception as error:  # any error: learning must go on
            self.building = None
            self._outage.record_failure(error)

    def _advance(
        self,
        retention: RetentionPeriod,
        read: Callable[[int, TrainingState], Sequence[Event]],
        durable_until: int,
    ) -> None:
        if self.building is None:
            if self.clock() >= self._next_check:
                self._next_check = self.clock() + retention.check_every_s
                self.building = self._begin(retention, durable_until)
            return
        building = self.building
        if building.room:
            self._learn(building, read(building.room, building.training))
        elif durable_until >= building.closed_at:
            self._publish(building)
            self.building = None
            self._outage.record_success()

    @staticmethod
    def _learn(building: UnfinishedBase, entries: Sequence[Event]) -> None:
        building.is_waiting = not entries  # for the copy in Redis, which is being written again
        if entries:
            building.training.apply(entries)
        for entry in entries:
            building.counts.add(entry)

    def _begin(self, retention: RetentionPeriod, durable_until: int) -> UnfinishedBase | None:
        """Close the events that have expired; None if there are none, or if the base is young."""
        self.sync()
        model, at = self.snapshots.model, retention.clock()
        base = self.store.read(lambda connection: find_base(connection, self.snapshots, self.recipe))
        kept = timedelta(days=retention.days)
        if base is not None and at - datetime.fromisoformat(base.created_at) < kept / BASES_PER_RETENTION:
            return None
        after, before = base.learned_until if base is not None else 0, (at - kept).isoformat()
        until = self.store.read(lambda connection: find_expired_until(connection, model, after, durable_until, before))
        if until <= after:
            return None
        expiry = self.store.submit(lambda connection: close_events(connection, model, until)).result()
        return self._start_building(base, expiry.closed_until, expiry.closed_at)

    def _start_building(self, base: Manifest | None, until: int, closed_at: int) -> UnfinishedBase:
        """Begin a base, or continue the present one. Raises CorruptSnapshot for a base that cannot be continued: an operator decides what becomes of it."""
        training, counts = self.start()
        if base is not None and training.learned_until != base.learned_until:
            raise CorruptSnapshot(
                f"the base of {self.snapshots.model} is damaged, so contents of events are kept: restore "
                f"{self.snapshots.folder.path / 'base'} from a backup, or delete it to go on with what is left of the log"
            )
        training.on_drift = lambda alarms: None  # they were reported when their events arrived
        training.refused |= self._find_retracted(training.learned_until, closed_at)
        return UnfinishedBase(training, counts, until, closed_at, None if base is None else base.version)

    def _publish(self, building: UnfinishedBase) -> None:
        base = self.find()
        history = 0 if base is None else history_count(base)
        at = now() if self.retention is None else self.retention.clock().isoformat()
        kept = {
            **building.counts.as_metrics(),
            CLOSED_AT: building.closed_at,
            **({HISTORY: history} if history else {}),
        }
        self.shared.share(publish_base(self.snapshots, self.recipe, building.training, kept, at, building.parent))


def publish_base(
    snapshots: Snapshots,
    recipe: str,
    training: TrainingState,
    metrics: Mapping[str, float],
    at: str,
    parent: int | None = None,
) -> Manifest:
    """Put a state on the disk as the base, in place of the one before. at: the time of the day. parent: the version that it continues."""
    bases = snapshots.base()
    missing = {MISSING_UNTIL: training.missing_until} if training.missing_until else {}
    manifest = Manifest(
        model=snapshots.model,
        version=bases.folder.next_version(),
        parent=parent,
        learned_until=training.learned_until,
        created_at=at,
        state_sha256=training.model.fingerprint(),
        weights_sha256="",
        feature_epoch=training.model.feature_epoch(),
        recipe=recipe,
        durable=True,
        metrics={**metrics, **missing},
        determinism_domain=determinism_domain(first_device(training.device)),
        log_digest=training.log_digest,
    )
    written: Manifest = bases.publisher.publish(training.state(), manifest, replaces=True, waits=True)
    bases.retention.remove_before(written.version)
    log_event(log, "base made", model=manifest.model, learned_until=manifest.learned_until)
    return written
