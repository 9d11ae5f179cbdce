"""The loop of one model: read after the offset in the last snapshot, learn, publish.

    stream --entries--> TrainingState (model, offset) --state--> Publisher (gate) --> snapshots
       ^                   | an entry that cannot be learned
       |                   v
       offset          refused by offset, with the reason

The offset is part of the snapshot. After a crash, learning resumes from the newest durable snapshot
and reads on from its offset. No acknowledgement is kept anywhere else, so that nothing is learned
twice and nothing is skipped.

Each read names the digest of the log until that offset. Where the log is another one, a new learner starts: it
sets aside the snapshots of the other log and learns the one that there is.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import torch

from online.errors import EncoderMoved, LearningLost, LogReplaced, NewerRelease, Unavailable
from online.learning.base_building import Bases
from online.learning.feedback_counts import FeedbackCounts
from online.learning.gate import UnsoundSnapshot
from online.learning.publisher import Publisher
from online.learning.setup import LearnerSetup
from online.learning.training_state import TrainingState
from online.models import Options, can_tune_encoder, recipe, spec_of
from online.schemas.events import Event
from online.scoring.drift_changes import Alarm
from online.snapshots import Snapshots
from online.snapshots.folder import LoadedSnapshot
from online.snapshots.manifest import Manifest
from online.snapshots.progress import ProgressWriter
from online.snapshots.set_aside import SetAsideRecord
from online.state.base_snapshot import MISSING_UNTIL, missing_until
from online.state.guard import Guard
from online.store import Store, now
from online.store.drift_alarms import add_drift_alarms
from online.store.encoder_moves import check_encoder
from online.store.erasure.relearnings import add_relearning
from online.store.events import head_of, list_foreign
from online.store.refusals import load_refusals, mark_refused, mask_values
from online.stream.contract import Stream
from online.telemetry import REMINDER_S, log_event

log = logging.getLogger("online.learner")

TRANSIENT_ERRORS = (Unavailable, MemoryError, torch.OutOfMemoryError)  # no entry causes these
RETRY_S = 0.5  # after the stream or the disk did not answer
HISTORY_PAGE = 1_000
MAX_TURN, MAX_TURN_S = 4_096, 0.1  # entries and seconds that a learner which is behind takes at once
RELEARNED_PAGE = 256  # entries of one step, which delay an entry that arrives meanwhile


class LogIdentity:
    """Recognises the log that the snapshots of a model were learned from.

    A database that was restored from an older backup, a fail-over to a stale replica, a truncated WAL or a new database
    give a log that is shorter, or that has other events at the same offsets. No snapshot that has learned what is not
    in the log may answer or be continued from: it is set aside, and the log is learned again.
    """

    def __init__(self, snapshots: Snapshots, store: Store, recipe: str) -> None:
        self.snapshots, self.store, self.recipe = snapshots, store, recipe

    def set_aside_foreign(self) -> SetAsideRecord | None:
        """Set aside every version that was learned from another log; None if there is none. Raises Unavailable."""
        manifests, model = self.snapshots.folder.manifests(), self.snapshots.model
        foreign, head = self.store.read(partial(list_foreign, model=model, manifests=manifests))
        if not foreign:
            return None
        versions = {manifest.version for manifest in foreign}
        kept = [each for each in manifests if each.version not in versions and each.recipe == self.recipe]
        live = max(kept, key=lambda each: (each.learned_until, each.version), default=None)
        return self._set_aside(foreign, head, None if live is None else live.version)

    def _set_aside(self, foreign: Sequence[Manifest], head: int, live: int | None) -> SetAsideRecord:
        newest = foreign[0]
        notice = SetAsideRecord(
            at=now(),
            reason=describe(newest, head),
            versions=tuple(sorted(manifest.version for manifest in foreign)),
            learned_until=max(manifest.learned_until for manifest in foreign),
            head=head,
        )
        notice = self.snapshots.aside.move(notice, live)
        facts = {"versions": len(foreign), "newest": newest.version, "live": live, "labels": ",".join(notice.labels)}
        log_event(log, "snapshots set aside", logging.ERROR, model=newest.model, reason=notice.reason, **facts)
        return notice


def describe(newest: Manifest, head: int) -> str:
    """Say why a version is not of the log, in a sentence."""
    if newest.learned_until > head:
        difference = (
            f"the log ends at offset {head}, but version {newest.version} had learned until {newest.learned_until}"
        )
    else:
        difference = f"the log has other events than version {newest.version} had learned, at or before offset {newest.learned_until}"
    return f"{difference}: the database is older than the snapshots, or another one"


class RelearningRun:
    """Learns the log again beside the learner, after events of an erased user were made void.

        an event `relearn` --> a new TrainingState --a page a step--> it has caught up --> it replaces the learner's

    Subtraction has un-learned the user at once, but leaves traces: the names of classes that only they gave, the
    detectors of drift that saw their inputs, the order in which others came. What is learned again from the log is what a
    learner that never saw them has, byte for byte, for every kind of model. Serving and learning go on meanwhile.
    Until it has caught up nothing durable is published, so a learner that is killed reads the event `relearn` again.

    covers_until: the head of the log when it began; events `relearn` up to there need no further one. offset: of the
    event that asked for it.
    """

    def __init__(self, training: TrainingState, offset: int, covers_until: int, count: Callable[[Event], None]) -> None:
        """count: called with each entry in order, to count it as the learner counts."""
        self.training, self.offset, self.covers_until, self._count = training, offset, covers_until, count

    def find_room(self, until: int) -> int:
        """Return how many entries may be learned next, where the learner has learned until an offset."""
        return max(0, min(RELEARNED_PAGE, until - self.training.learned_until))

    def learn(self, entries: Sequence[Event]) -> None:
        """Learn further entries, and count them."""
        self.training.apply(entries)
        note_relearned(self.training, entries, self.covers_until)
        for entry in entries:
            self._count(entry)


def asks_to_relearn(entries: Sequence[Event], covers_until: int) -> int | None:
    """Return the offset of the last event `relearn` after an offset; None if there is none."""
    offsets = [entry.offset for entry in entries if entry.kind == "relearn" and entry.offset > covers_until]
    return offsets[-1] if offsets else None


def note_relearned(training: TrainingState, entries: Sequence[Event], covers_until: int) -> None:
    """Note the events `relearn` that a state takes into account: it was learned after their events were made void."""
    covered = [entry.offset for entry in entries if entry.kind == "relearn" and entry.offset <= covers_until]
    training.relearned = max([training.relearned, *covered])


class RefusalLog:
    """Count what a learner refuses, and log it when nothing more is waiting, once a minute at most.

    One line is about many events: WARNING learner events refused model=topics count=4999 first=3 last=5001 reason="..." reasons=2
    """

    def __init__(self, model: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.model, self.clock = model, clock
        self.offsets: list[int] = []
        self.reason = ""
        self.reasons: set[str] = set()
        self.began_at = 0.0
        self.reported_at: float | None = None

    def add(self, offset: int, reason: str) -> None:
        """Count a refused event; its reason is kept without its values."""
        if not self.offsets:
            self.began_at, self.reason = self.clock(), reason
        self.offsets.append(offset)
        self.reasons.add(mask_values(reason))

    def report(self, is_behind: bool) -> None:
        """Log what is not logged yet, if it is time to. is_behind: whether more events wait to be learned."""
        if not self.offsets:
            return
        now = self.clock()
        since = self.began_at if is_behind else self.reported_at
        if since is None or now - since >= REMINDER_S:
            self.flush()

    def flush(self) -> None:
        """Log what is not logged yet, now."""
        if not self.offsets:
            return
        more = {"reasons": len(self.reasons)} if len(self.reasons) > 1 else {}
        counts = {"count": len(self.offsets), "first": min(self.offsets), "last": max(self.offsets)}
        log_event(log, "events refused", logging.WARNING, model=self.model, **counts, reason=self.reason, **more)
        self.reported_at = self.clock()
        self.offsets, self.reasons = [], set()


class TurnSize:
    """The number of entries of a turn: more and more while the learner is behind, as long as a turn is short.

    A turn has costs beside its entries, such as its query. The number never decides what is learned.
    """

    def __init__(self) -> None:
        self._grown = 0

    def find_count(self, batch: int) -> int:
        """Return the number of the next turn. batch: that of a learner which is not behind."""
        return max(batch, self._grown)

    def note(self, count: int, took_s: float, is_behind: bool) -> None:
        """Note that so many entries were learned at once."""
        if not is_behind:
            self._grown = 0
        elif took_s > MAX_TURN_S:
            self._grown = count // 2
        elif took_s < MAX_TURN_S / 2:
            self._grown = min(2 * count, MAX_TURN)


class Learner:
    """One model's learner. It may be killed at any point of `run`."""

    def __init__(
        self,
        kind: str,
        options: Options,
        snapshots: Snapshots,
        stream: Stream,
        store: Store,
        setup: LearnerSetup | None = None,
    ) -> None:
        self.snapshots, self.stream, self.store = snapshots, stream, store
        self.kind, self.options, self.setup = kind, options, setup or LearnerSetup()
        setup = self.setup
        self.recipe = recipe(kind, options)
        self.progress = ProgressWriter(snapshots.folder.path, setup.clock)
        self.publisher = Publisher(kind, options, snapshots, store, setup)
        self.log_identity = LogIdentity(snapshots, store, self.recipe)
        is_guarded = setup.guard != "off" and spec_of(kind).is_guarded
        self.guard = None if not is_guarded else Guard(snapshots, store, self.recipe, setup.guard)
        self.counts = self._create_counts()
        self.refusals = RefusalLog(snapshots.model, setup.clock)
        self.bases = Bases(
            snapshots, store, self.recipe, self._create_training, self._create_counts, setup.retention, setup.clock
        )
        self.turn_size = TurnSize()
        self._is_behind = True  # whether the log may go on beyond what was read last
        self.workers = setup.workers.serve(snapshots.model, kind, options, setup.device)
        self.silent_until = 0  # nothing is published before this offset is learned
        self.training = self._create_training()
        self.relearning: RelearningRun | None = None
        self.covers_until = 0  # `relearn` events until here need no action: the state excludes erased events

    def run(self, stop: threading.Event) -> None:
        """Resume, then read, learn and publish until `stop` is set or the options change; leave the last state durable.

        Raises EncoderMoved if the log's features are from now on those of another encoder, and LogReplaced if the
        log is not the one that was learned, LeaseLost if another replica learns the model now, and NewerRelease if the log goes on
        with what this release does not know.
        """
        try:
            self._run(stop)
        finally:
            self.refusals.flush()
            self.workers.stop()

    def _run(self, stop: threading.Event) -> None:
        self.start()
        is_lost = False
        while not stop.is_set() and not self.setup.is_outdated():
            if self.setup.lease is not None:
                self.setup.lease.check()
            try:
                if is_lost:
                    self.workers.dissolve()
                    self.resume()
                    is_lost = False
                if self.snapshots.control.frozen() is None:
                    self.step()
                else:
                    self._read(1)  # nothing is learned; a log that was replaced is noticed
                    self.save()
                    stop.wait(self.setup.idle_ms / 1000)
            except EncoderMoved:
                raise
            except NewerRelease:
                self.save()
                raise
            except LogReplaced:
                self.log_identity.set_aside_foreign()  # at once: until then they answer
                raise
            except LearningLost as error:
                self._note_lost(error)
                is_lost = True
            except Unavailable as error:
                log_event(log, "learning paused", logging.WARNING, model=self.snapshots.model, reason=str(error))
                stop.wait(RETRY_S)
        try:
            if not is_lost:
                self.save()
        except LearningLost as error:
            self._note_lost(error)

    def _note_lost(self, error: LearningLost) -> None:
        """Log that events since the last durable version are learned again from the log."""
        log_event(log, "resuming after a loss", logging.WARNING, model=self.snapshots.model, reason=str(error))

    def start(self) -> None:
        """Resume and, if no usable version is live, publish the state.

        While a version with another encoder may still answer, nothing is published that has learned
        less than the whole log.
        """
        self.publisher.start()
        self.resume()
        if self.guard is not None:
            self.guard.finish()
        live_until = self.snapshots.folder.live_until(self.recipe)
        if live_until < 0 and can_tune_encoder(self.kind, self.options):
            self.silent_until = self._head()
        if self.training.learned_until > live_until and not self.is_silent:
            self.publish(durable=True)
        self.snapshots.aside.mark_learned_again(live_until)

    @property
    def is_silent(self) -> bool:
        """Whether alarms are not recorded: their events were observed before."""
        return self.training.learned_until < self.silent_until

    def resume(self) -> None:
        """Continue from the newest durable snapshot of this log that can be restored, or else from the base, or nothing."""
        self.log_identity.set_aside_foreign()
        self.bases.sync()
        self.training = self._create_training()
        durable = self.snapshots.folder.durable(self.recipe, self.bases.find_resumable_from())
        restored = next(filter(self._restore, durable), None)
        if restored is None:
            self.training, self.counts = self.bases.start()
            self.bases.report_missing(self.training)
        version = restored.manifest.version if restored else None
        until = self.training.learned_until
        self.covers_until = until if restored else self._head()
        self.publisher.resume(version, until)
        log_event(log, "resumed", model=self.snapshots.model, version=version, learned_until=until)

    def _restore(self, loaded: LoadedSnapshot) -> bool:
        try:
            self.training.restore(loaded.parts)
        except (Unavailable, torch.OutOfMemoryError):
            raise  # the snapshot is sound
        except Exception as error:  # any defect: an older snapshot, or the log itself, replaces it
            reason = f"{type(error).__name__}: {error}"
            version = loaded.manifest.version
            log_event(log, "cannot resume", logging.ERROR, model=self.snapshots.model, version=version, reason=reason)
            self.training = self._create_training()
            return False
        self.training.learned_until = loaded.manifest.learned_until
        self.training.taught_until, self.training.relearned = loaded.manifest.taught_until, loaded.manifest.relearned
        self.training.missing_until = missing_until(loaded.manifest.metrics)
        self.training.log_digest = loaded.manifest.log_digest
        self.counts.load(dict(loaded.manifest.metrics))
        return True

    def step(self) -> None:
        """Read once, learn the entries, publish what is due."""
        self.publisher.look()
        entries = self._read_next()
        if entries:
            began_at = self.setup.clock()
            with self.setup.quantum.turn(len(entries), self.setup.device):
                began_ns = time.time_ns()
                self.learn(entries)
            self.turn_size.note(len(entries), self.setup.clock() - began_at, self._is_behind)
            self.setup.tracer.learn(self.snapshots.model, entries[0].offset, entries[-1].offset, began_ns)
        self.refusals.report(self._is_behind)
        if self.relearning is not None:
            self._relearn(self.relearning)
        else:
            self.bases.advance(self._read_for, self.publisher.durable_until)
        if self.is_silent or (self.guard is not None and self.snapshots.control.frozen() is not None):
            return
        due = self.publisher.find_due(self.training, self._is_behind)
        if due is not None:
            self.publish(durable=due == "durable")

    def _read_next(self) -> list[Event]:
        """Read what is learned next: a batch, or far behind the head the rest of a range, which workers have summed."""
        count = self.setup.quantum.find_count(self.turn_size.find_count(self.setup.batch))
        if self._is_behind:
            training = self.training
            count = self.workers.find_count(training.model, training.learned_until, self._head) or count
            training.find_sums = self.workers.find_sums
        if (room := self.publisher.find_room(self.training)) is not None:
            count = min(count, room)  # up to what another replica has published, and then adopt that
        entries = self._read(count, self._find_wait_ms())
        self._is_behind = len(entries) == count
        return entries

    def save(self) -> None:
        """Make durable what was learned: at the end, and while the model is frozen."""
        self.publisher.settle_disk_write()
        if self.training.learned_until > self.publisher.durable_until and not self.is_silent:
            self.publish(durable=True)
            self.publisher.finish_disk_write()

    def _note_learned(self, count: int, is_merged: bool) -> None:
        """Count examples. is_merged: whether their sums came from a worker."""
        self.progress.add(count)
        self.workers.note_learned(count, is_merged)

    def _find_wait_ms(self) -> float:
        """Return the longest wait for the next entry: until a publication is due, if one is pending."""
        if self.relearning is not None and self.relearning.find_room(self.training.learned_until):
            return 0.0
        if self.bases.is_busy:
            return 0.0
        is_pending = self.training.learned_until > self.publisher.tried_until and not self.is_silent
        wait_ms = self.publisher.find_wait_ms(self.training, is_pending)
        return self.setup.idle_ms if wait_ms is None else wait_ms

    def _read(self, count: int, block_ms: float = 0, training: TrainingState | None = None) -> list[Event]:
        """Read the next entries for a state; by default for what is learned.

        Raises Unavailable if an offset is missing: the stream lost entries, which return once it is
        rebuilt from the store. Raises EncoderMoved if another encoder is in use; a stream gives the
        features of one encoder only, so it has no further entries then. Raises LogReplaced if the log until here is
        not the one that was learned, and LearningLost if another replica has removed what is read.
        """
        training = training or self.training
        after = training.learned_until
        entries = self.stream.read(after, count, block_ms, training.log_digest)
        if not entries:
            encoder = self.options.get("encoder", "")
            self.store.read(lambda connection: check_encoder(connection, self.snapshots.model, encoder))
        for expected, entry in enumerate(entries, after + 1):
            if entry.offset != expected:
                raise Unavailable(f"the stream continues with offset {entry.offset}, expected {expected}")
        self.bases.check_contents(entries, after, training.missing_until)
        return entries

    def learn(self, entries: Sequence[Event]) -> None:
        """Learn entries, and refuse those that break the model."""
        try:
            self.training.apply(entries)
        except LearningLost:
            raise  # `run` resumes
        except TRANSIENT_ERRORS:
            self.resume()  # some of the entries may be learned: return to a state in which none is
            raise
        except Exception as error:  # the model is in an unknown state: find the entry from the last durable one
            model, cause = self.snapshots.model, f"{type(error).__name__}: {error}"
            log_event(log, "isolating the failing event", logging.WARNING, model=model, error=cause)
            self._isolate(entries[-1].offset)
        for entry in entries:
            self.counts.add(entry)
        covers_until = self.covers_until if self.relearning is None else self.relearning.covers_until
        note_relearned(self.training, entries, self.covers_until)
        if (offset := asks_to_relearn(entries, covers_until)) is not None:
            self._begin_relearning(offset)

    def publish(self, durable: bool, replaces: bool = False) -> Manifest | None:
        """Publish the current state; None if nothing was published. See `Publisher.publish`.

        If the state cannot serve, the entries that broke it are refused and learning resumes. Nothing durable is
        published while the log is learned again.
        """
        until, began_ns = self.training.learned_until, time.time_ns()
        durable = durable and self.relearning is None
        try:
            written = self.publisher.publish(self.training, self._collect_metrics(), durable, replaces)
        except UnsoundSnapshot:
            self._isolate(until, gated=True)
            return None
        if written is not None:
            self.snapshots.aside.mark_learned_again(until)
            self.setup.tracer.publish(self.snapshots.model, written.version, until, began_ns)
        return written

    def _collect_metrics(self) -> dict[str, float]:
        missing = {MISSING_UNTIL: self.training.missing_until} if self.training.missing_until else {}
        return {**self.counts.as_metrics(), "drift_alarms": self.training.monitor.alarm_count, **missing}

    # learning again, after an erasure

    def _begin_relearning(self, offset: int) -> None:
        log_event(log, "learning again", model=self.snapshots.model, offset=offset)
        training, counts = self.bases.start()
        self.bases.report_missing(training)
        training.on_drift = lambda alarms: None  # they were reported when their events arrived
        self.relearning = RelearningRun(training, offset, self._head(), lambda entry: counts.add(entry))
        self.relearned_counts = counts

    def _relearn(self, relearning: RelearningRun) -> None:
        """Learn one page again. Once that has caught up, it replaces what was learned before."""
        until = self.training.learned_until
        if count := relearning.find_room(until):
            entries = self._read_again(count, relearning)
            try:
                relearning.learn(entries)
            except Exception:  # some of the entries may be learned: begin again
                self._begin_relearning(relearning.offset)
                raise
        if relearning.training.learned_until == until >= self.snapshots.folder.live_until(self.recipe):
            self._replace_training(relearning)

    def _read_again(self, count: int, relearning: RelearningRun) -> list[Event]:
        try:
            return self._read(count, training=relearning.training)
        except LearningLost:  # the base that it began from is replaced
            self._begin_relearning(relearning.offset)
            raise

    def _replace_training(self, relearning: RelearningRun) -> None:
        before, self.training = self.training, relearning.training
        self.training.relearned = max(self.training.relearned, relearning.offset)
        self.training.on_drift = self._record_drift
        self.counts, self.relearning, self.covers_until = self.relearned_counts, None, relearning.covers_until
        hashes = before.model.fingerprint(), self.training.model.fingerprint()
        until, model = self.training.learned_until, self.snapshots.model
        self.store.submit(
            lambda connection: add_relearning(connection, model, relearning.offset, until, hashes)
        ).result()
        log_event(log, "learned again", model=model, learned_until=until, is_same=hashes[0] == hashes[1])
        self.publish(durable=True, replaces=True)

    # entries that break the model

    def _isolate(self, until: int, gated: bool = False) -> None:
        """Learn one by one from the last durable state, and refuse each entry that breaks the model.

        gated: an entry also breaks it if the gate refuses the model after it.
        """
        counts = self.counts.events, self.counts.rated, self.counts.right
        found = 0
        self.resume()
        while (culprit := self._find_culprit(until, gated)) is not None:
            found += 1
            self.training.refuse(*culprit)
            self.resume()
        self.counts.events, self.counts.rated, self.counts.right = counts
        if gated and not found:
            self.publisher.tried_until = until

    def _find_culprit(self, until: int, gated: bool) -> tuple[int, str] | None:
        while self.training.learned_until < until:
            entries = self._read(1)
            if not entries:
                raise Unavailable(f"the stream ends before offset {until}, which it had")
            entry = entries[0]
            try:
                self.training.apply([entry])
            except TRANSIENT_ERRORS:
                raise
            except Exception as error:  # any error: this entry must not block the ones after it
                return entry.offset, f"{type(error).__name__}: {error}"
            model = self.training.model
            gate = self.publisher.gate
            refusal = gate.refusal(model.state(serving_only=True), model.probes()) if gated else None
            if refusal is not None:
                return entry.offset, refusal
        return None

    # the training state and what it reports

    def _head(self) -> int:
        return int(self.store.read(lambda connection: head_of(connection, self.snapshots.model)))

    def _create_training(self) -> TrainingState:
        refused = self.store.read(lambda connection: load_refusals(connection, self.snapshots.model, self.recipe))
        return TrainingState(
            self.kind,
            self.options,
            self.setup.device,
            self._read_history,
            refused,
            self._record_refusal,
            self.setup.drift,
            self._record_drift,
            restart=self.bases.restart,
            wrap=self.workers.wrap,
            golden_questions=self.setup.golden_questions,
            on_learned=self._note_learned,
        )

    def _create_counts(self) -> FeedbackCounts:
        return FeedbackCounts(counts_right=not spec_of(self.kind).predicts_numbers)

    def _read_for(self, count: int, training: TrainingState) -> list[Event]:
        return self._read(count, training=training)

    def _read_history(self, until: int) -> Iterator[Event]:
        """Yield every entry up to an offset; without those that the base has learned, where there is one."""
        after, digest = self.bases.find_end()
        learning = [self.training] if self.relearning is None else [self.training, self.relearning.training]
        missing_until = max(each.missing_until for each in learning)
        while after < until and (entries := self.stream.read(after, HISTORY_PAGE, digest=digest)):
            self.bases.check_contents(entries, after, missing_until)
            yield from (entry for entry in entries if entry.offset <= until)
            after, digest = entries[-1].offset, entries[-1].digest

    def _record_refusal(self, offset: int, reason: str) -> None:
        self.refusals.add(offset, reason)
        self.store.submit(
            lambda connection: mark_refused(connection, self.snapshots.model, self.recipe, offset, reason)
        ).result()

    def _record_drift(self, alarms: Sequence[Alarm]) -> None:
        """Log and store the first alarm of each change; the guard receives every rise of the loss.

        Not for numbers: that they become harder to predict does not say that the feedback is wrong.
        After a crash the same alarms are raised again; the stored ones stay as they are.
        """
        rows = [asdict(alarm) for alarm in alarms if self.training.monitor.begins_change(alarm)]
        for row in rows:
            log_event(log, "drift detected", logging.WARNING, model=self.snapshots.model, **row)
        self.store.submit(lambda connection: add_drift_alarms(connection, self.snapshots.model, rows)).result()
        risen = next((alarm for alarm in alarms if alarm.what == "loss"), None)
        if self.guard is not None and risen is not None and self.training.monitor.numbers is None:
            self.guard.act(risen.offset, risen.since, describe_loss(risen))


def describe_loss(alarm: Alarm) -> str:
    """Return the sentence that explains an alarm of rising losses."""
    return (
        f"{100 * alarm.after:.0f} % of the last {alarm.window} answers were wrong; "
        f"up to event {alarm.since} it was {100 * alarm.before:.0f} %"
    )
