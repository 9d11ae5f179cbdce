"""Publishes what a learner has learned.

    training state --> proposed snapshot --Gate--> sound? --LiveComparison--> not worse? --> snapshots
                                            | no                              | no
                                            v                                 v
                                     UnsoundSnapshot                    None, and a rest

Most versions are written without an fsync and without what only a learner reads; at intervals a
durable one follows, from which learning can resume after a crash. It goes live like the others, and
is put on the disk in a thread, because a disk may take 0.15 s, in which nothing would be learned.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from online.errors import Unavailable
from online.learning.agreement import LOOK_EVERY_S, Agreement, Place
from online.learning.gate import Gate, LiveComparison, UnsoundSnapshot
from online.learning.setup import LearnerSetup
from online.learning.training_state import TrainingState
from online.models import Options, State, recipe
from online.models.devices.determinism import determinism_domain
from online.models.devices.placement import first_device
from online.models.wrappers import name_answering
from online.snapshots import Snapshots
from online.snapshots.manifest import RELEARNED, TAUGHT_UNTIL, Manifest
from online.state.version_control import VersionControl
from online.store import Store, now
from online.store.refusals import RejectedSnapshotRow, add_rejection
from online.telemetry import log_event

log = logging.getLogger("online.learner")

PRUNE_EVERY = 32  # publications
SLOW_S, REST_RATIO = 0.2, 5  # after a durable snapshot that took longer, rest for 5 times its cost
# between two publications while more events wait: BEHIND_RATIO times what the last one cost, within these bounds
BEHIND_EVERY_S, BEHIND_MAX_S, BEHIND_RATIO = 0.25, 2.0, 10
REJECTED_REST_S = 1.0  # before the gate checks again whether a proposed snapshot is still worse
LONG_AGO = -1e9

Due = Literal["serving", "durable"]  # serving: without what only a learner reads


@dataclass(frozen=True, slots=True)
class DiskWrite:
    """A durable version on its way to the disk. cost_s: how long its publication took, once it is there."""

    cost_s: Future[float]
    learned_until: int


class Publisher:
    """Decides when a version is due, asks the gate, and writes the version.

    durable_until: the offset in the newest snapshot that is on the disk, -1 without one. tried_until: the
    offset of the last attempt to publish. rejected_since: the offset of the first of the attempts that the gate has
    refused since it accepted one; None if it accepted the last one. parent: the version that the next one is derived from.
    cost_s: what the last publication took. disk_write: the durable version that is being put on the disk, if any.
    agreement: with the learners of other replicas, where the store may have any.
    """

    def __init__(
        self,
        kind: str,
        options: Options,
        snapshots: Snapshots,
        store: Store,
        setup: LearnerSetup,
    ) -> None:
        self.snapshots, self.store, self.setup, self.clock = snapshots, store, setup, setup.clock
        self.versions = VersionControl(snapshots, store)
        self.publish_every_s = setup.publish_every_ms / 1000
        self.gate, self.recipe = Gate(kind, options), recipe(kind, options)
        self.agreement = (
            Agreement(snapshots, store, self.recipe, setup.replica, setup.clock, setup.lease)
            if store.is_shared
            else None
        )
        self.comparison = LiveComparison(kind, options, snapshots, setup.golden_questions)
        self.published_at = self.durable_at = LONG_AGO
        self.durable_cost_s = self.cost_s = 0.0
        self.durable_until = self.tried_until = -1
        self.rejected_since: int | None = None
        self.parent: int | None = None
        self.disk_writer = ThreadPoolExecutor(1, "disk-writer")
        self.disk_write: DiskWrite | None = None
        self.publications = 0
        self.answering = ""  # which of several models answers (`wrappers`)

    def start(self) -> None:
        """Carry out what was decided about versions meanwhile, and see what other replicas have published."""
        self.versions.catch_up(self.recipe)
        if self.agreement is not None:
            self.agreement.start()

    def look(self) -> None:
        """See what other replicas have published, where there may be any. Raises Unavailable."""
        if self.agreement is not None:
            self.agreement.look()

    def find_room(self, training: TrainingState) -> int | None:
        """Return how many entries may be learned before another replica's version is adopted; None: any number."""
        return None if self.agreement is None else self.agreement.find_room(place_of(training))

    def find_wait_ms(self, training: TrainingState, is_pending: bool) -> float | None:
        """Return the longest wait for entries while something may be published, by this replica or another; None: it may not."""
        if self.agreement is not None and (is_pending or self.agreement.is_behind(place_of(training))):
            return min(1000 * LOOK_EVERY_S, self.wait_ms)
        return self.wait_ms if is_pending else None

    def resume(self, version: int | None, learned_until: int) -> None:
        """Continue from a durable version, or from nothing (None).

        One that is not noted to be on the disk, as after a kill, is followed by another durable one.
        """
        self.settle_disk_write()
        self.parent = version
        self.tried_until = -1 if version is None else learned_until
        self.durable_until = learned_until if version is not None and self.snapshots.folder.is_on_disk(version) else -1

    @property
    def wait_ms(self) -> float:
        """How long it takes until the next version may be published."""
        return max(0.0, (self.published_at + self.publish_every_s - self.clock()) * 1000)

    def find_due(self, training: TrainingState, is_behind: bool = False) -> Due | None:
        """Return what is due to be published, if anything. Raises Unavailable if a durable version did not reach the disk.

        is_behind: whether more events wait than were read at once. A version is then published more seldom, so that the learner
        catches up sooner.
        A state that the gate refused is not tried again before more is learned.
        """
        if self.disk_write is not None and self.disk_write.cost_s.done():
            self.finish_disk_write()
        learned_until, place = training.learned_until, place_of(training)
        if self.agreement is not None:
            if self.agreement.is_behind(place) or self.agreement.divergence is not None:
                return None
            if self.agreement.needs_copy(place):
                return "durable" if self._is_durable_due() else "serving"  # at once: others answer with it
        least_s = max(BEHIND_EVERY_S, min(BEHIND_RATIO * self.cost_s, BEHIND_MAX_S)) if is_behind else 0.0
        every_s = max(self.publish_every_s, least_s)
        if learned_until > self.tried_until and self.clock() - self.published_at >= every_s:
            return "durable" if self._is_durable_due() else "serving"
        if self.rejected_since is None and learned_until > self.durable_until and self._is_durable_due():
            return "durable"
        return None

    def _is_durable_due(self) -> bool:
        """Return a state that is slow to write is written less often, so that most of the time is left for learning."""
        if self.disk_write is not None:
            return False
        rest_s = REST_RATIO * self.durable_cost_s if self.durable_cost_s > SLOW_S else 0.0
        return self.clock() - self.durable_at >= max(self.setup.durable_every_s, rest_s)

    def publish(
        self, training: TrainingState, metrics: Mapping[str, float], durable: bool, replaces: bool = False
    ) -> Manifest | None:
        """Write the current state as a version, which goes live if it has learned more than the live one.

        replaces: it goes live whatever the live version has learned, and is not compared with it: that one holds what
        an erased user taught.

        Return None if there is nothing to write, or if the proposed snapshot is worse than the live
        version. Raises UnsoundSnapshot if it cannot serve at all.
        """
        if durable:
            self.settle_disk_write()
        started_at = self.clock()
        until = training.learned_until
        self.tried_until = until
        if self.agreement is None:
            if not durable and not self.snapshots.folder.goes_live(self.recipe, until, training.taught_until):
                return None
            written = self._publish_alone(training, metrics, durable, replaces)
        else:
            written = self._publish_agreed(self.agreement, training, metrics, durable, replaces)
        if written is None:
            return None
        self._note_published(written)
        self.cost_s = self.clock() - started_at
        self.comparison.mark_published(written.version)
        self.rejected_since = None
        if durable and self._waits(replaces):
            self._mark_durable(until, self.clock() - started_at)
        elif durable:
            cost_s = self.disk_writer.submit(self._put_on_disk, written.version, started_at)
            self.disk_write = DiskWrite(cost_s, until)
        return written

    def _waits(self, replaces: bool) -> bool:
        """Return whether a durable version is on the disk before learning goes on."""
        return replaces or self.setup.waits_for_disk

    def _publish_alone(
        self, training: TrainingState, metrics: Mapping[str, float], durable: bool, replaces: bool
    ) -> Manifest | None:
        """Write a version of a model that only this process learns."""
        state = training.state(serving_only=not durable)
        if not self._passes_gate(training, state, compares=not replaces):
            return None
        manifest = self._describe(training, metrics, durable, self.snapshots.folder.next_version())
        waits = durable and self._waits(replaces)
        return self.snapshots.publisher.publish(state, manifest, replaces, waits)

    def _publish_agreed(
        self,
        agreement: Agreement,
        training: TrainingState,
        metrics: Mapping[str, float],
        durable: bool,
        replaces: bool,
    ) -> Manifest | None:
        """Write the version that all replicas agree on at this place: a new one, or one that another has published."""
        place = place_of(training)
        if agreement.is_behind(place) or (not durable and agreement.is_done(place)):
            return None
        state = training.state(serving_only=not durable)
        is_known = agreement.is_published(place) and agreement.lease is None
        if not is_known and not self._passes_gate(training, state, compares=not replaces):
            return None
        manifest = self._describe(training, metrics, durable, version=0)
        return agreement.publish(state, manifest, waits=durable and self._waits(replaces))

    def _put_on_disk(self, version: int, began_at: float) -> float:
        self.snapshots.publisher.make_durable(version)
        return self.clock() - began_at

    def finish_disk_write(self) -> None:
        """Wait until the last durable version is on the disk. Raises Unavailable if it is not; then another one is due."""
        write, self.disk_write = self.disk_write, None
        if write is None:
            return
        try:
            cost_s = write.cost_s.result()
        except Unavailable:
            self.snapshots.publisher.forget_parts()
            raise
        self._mark_durable(write.learned_until, cost_s)

    def settle_disk_write(self) -> None:
        """Wait until the last durable version is on the disk, or refused by it: the log says so, and another one is due."""
        try:
            self.finish_disk_write()
        except Unavailable as error:
            model, reason = self.snapshots.model, str(error)
            log_event(log, "durable version lost", logging.WARNING, model=model, reason=reason)

    def _mark_durable(self, learned_until: int, cost_s: float) -> None:
        self.durable_until, self.durable_at, self.durable_cost_s = learned_until, self.clock(), cost_s

    def _passes_gate(self, training: TrainingState, state: State, compares: bool) -> bool:
        """Return whether the gate lets the state pass. Raises UnsoundSnapshot."""
        until = training.learned_until
        try:
            proposed = self.gate.load_proposed(state, training.model.probes())
        except UnsoundSnapshot as error:
            self._record_rejection(until, str(error))
            raise
        refusal = self.comparison.refusal(proposed, training.held_out)
        if refusal is None or not compares:
            return True
        self._record_rejection(until, refusal)
        self.published_at = self.clock() + REJECTED_REST_S - self.publish_every_s
        return False

    def _describe(self, training: TrainingState, metrics: Mapping[str, float], durable: bool, version: int) -> Manifest:
        return Manifest(
            model=self.snapshots.model,
            version=version,
            parent=self.parent,
            learned_until=training.learned_until,
            created_at=now(),
            state_sha256=training.model.fingerprint(),
            weights_sha256="",
            feature_epoch=training.model.feature_epoch(),
            recipe=self.recipe,
            durable=durable,
            metrics={**metrics, **training.model.facts(), **describe_place(training)},
            determinism_domain=determinism_domain(first_device(self.setup.device)),
            log_digest=training.log_digest,
        )

    def _note_published(self, written: Manifest) -> None:
        self._log_published(written)
        self.parent, self.published_at = written.version, self.clock()
        self.publications += 1
        if self.publications % PRUNE_EVERY == 0:
            pruning = self.disk_writer.submit(self._prune)
            if self.setup.waits_for_disk:
                pruning.result()

    def _prune(self) -> None:
        try:
            self.snapshots.retention.prune()
        except Exception as error:  # the next one removes the rest
            model, reason = self.snapshots.model, str(error)
            log_event(log, "old versions not removed", logging.WARNING, model=model, reason=reason)

    def _log_published(self, written: Manifest) -> None:
        """Log the version and, for a model that contains several, a change of the one that answers."""
        answering = name_answering(written.metrics)
        if answering and answering != self.answering:
            log_event(log, "answering model changed", model=written.model, who=answering)
        self.answering = answering
        fields = {"version": written.version, "learned_until": written.learned_until, "durable": written.durable}
        log_event(log, "published", logging.DEBUG, model=written.model, **fields)

    def _record_rejection(self, until: int, reason: str) -> None:
        self.rejected_since = until if self.rejected_since is None else self.rejected_since
        model, since = self.snapshots.model, self.rejected_since
        log_event(log, "snapshot rejected", logging.ERROR, model=model, learned_until=until, reason=reason)
        row = RejectedSnapshotRow(model=model, since=since, until=until, times=1, reason=reason, created_at=now())
        self.store.submit(lambda connection: add_rejection(connection, row)).result()


def place_of(training: TrainingState) -> Place:
    """Return where a state is in the order of publications."""
    return training.relearned, training.learned_until


def describe_place(training: TrainingState) -> dict[str, float]:
    """Return the metrics that place a state in its log, where they say more than its offset."""
    taught = {TAUGHT_UNTIL: training.taught_until} if training.taught_until != training.learned_until else {}
    return {**taught, **({RELEARNED: training.relearned} if training.relearned else {})}
