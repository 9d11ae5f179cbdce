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
from online.learning.gate import Gate, LiveComparison, UnsoundSnapshot
from online.learning.setup import LearnerSetup
from online.learning.training_state import TrainingState
from online.models import Options, State, recipe
from online.models.devices.determinism import determinism_domain
from online.models.devices.placement import first_device
from online.models.wrappers import name_answering
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.store import Store, now
from online.store.refusals import RejectedSnapshotRow, add_rejection
from online.telemetry import log_event

log = logging.getLogger("online.learner")

PRUNE_EVERY = 32  # publications
SLOW_S, REST_RATIO = 0.2, 5  # after a durable snapshot that took longer, rest for 5 times its cost
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
    disk_write: the durable version that is being put on the disk, if any.
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
        self.publish_every_s = setup.publish_every_ms / 1000
        self.gate, self.recipe = Gate(kind, options), recipe(kind, options)
        self.comparison = LiveComparison(kind, options, snapshots, setup.golden_questions)
        self.published_at = self.durable_at = LONG_AGO
        self.durable_cost_s = 0.0
        self.durable_until = self.tried_until = -1
        self.rejected_since: int | None = None
        self.parent: int | None = None
        self.disk_writer = ThreadPoolExecutor(1, "disk-writer")
        self.disk_write: DiskWrite | None = None
        self.publications = 0
        self.answering = ""  # which of several models answers (`wrappers`)

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

    def find_due(self, learned_until: int) -> Due | None:
        """Return what is due to be published, if anything. Raises Unavailable if a durable version did not reach the disk.

        A state that the gate refused is not tried again before more is learned.
        """
        if self.disk_write is not None and self.disk_write.cost_s.done():
            self.finish_disk_write()
        if learned_until > self.tried_until and self.clock() - self.published_at >= self.publish_every_s:
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
        if not durable and until <= self.snapshots.folder.live_until(self.recipe):
            return None
        state = training.state(serving_only=not durable)
        if not self._passes_gate(training, state, compares=not replaces):
            return None
        waits = durable and (replaces or self.setup.waits_for_disk)
        written = self.snapshots.publisher.publish(state, self._describe(training, metrics, durable), replaces, waits)
        self._note_published(written)
        self.comparison.mark_published(written.version)
        self.rejected_since = None
        if waits:
            self._mark_durable(until, self.clock() - started_at)
        elif durable:
            cost_s = self.disk_writer.submit(self._put_on_disk, written.version, started_at)
            self.disk_write = DiskWrite(cost_s, until)
        return written

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

    def _describe(self, training: TrainingState, metrics: Mapping[str, float], durable: bool) -> Manifest:
        return Manifest(
            model=self.snapshots.model,
            version=self.snapshots.folder.next_version(),
            parent=self.parent,
            learned_until=training.learned_until,
            created_at=now(),
            state_sha256=training.model.fingerprint(),
            weights_sha256="",
            feature_epoch=training.model.feature_epoch(),
            recipe=self.recipe,
            durable=durable,
            metrics={**metrics, **training.model.facts()},
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
