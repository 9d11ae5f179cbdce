"""Builds the runtime of each model from what all models of a service share.

settings, workspace --> live, transactions, predictor, feedback, relay --> ModelRuntime
"""

import os
import time
from collections.abc import Callable, Iterator

from online.errors import SetupError
from online.journal import JournalWriter
from online.serving.devices.replica import ServingPlace
from online.serving.disk_space import DiskSpace
from online.serving.encoder_sources import EncoderCache, ModelSource
from online.serving.event_feed import EventFeed
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.outcomes import OutcomeMarker
from online.serving.feedback.work import create_work
from online.serving.live import LiveModel
from online.serving.model_runtime import ModelRuntime
from online.serving.monitoring.live_monitor import create_live_monitor
from online.serving.monitoring.standstill import StandstillWatch
from online.serving.predictor import Predictor
from online.serving.processes.store_client import StartProcess, StoreClient
from online.serving.rates import RateLimits
from online.serving.rating_counter import RatingCounter
from online.serving.readiness import Readiness
from online.serving.repertoire.repertoire import Repertoire
from online.serving.repertoire.starter import read_starter
from online.serving.stream_relay import Copy, StreamRelay
from online.serving.transactions import Transactions
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.telemetry import Metrics, Tracer

RANDOM_BYTES, IDS_AT_ONCE = 9, 256  # of an id; ids whose random part is drawn in one call


class ModelBuilder:
    """Builds the runtime of each model from what all of them share."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        metrics: Metrics,
        is_primary: bool,
        start_store_process: StartProcess | None,
        create_place: Callable[[str], ServingPlace],
        rates: RateLimits,
        disk: DiskSpace,
        tracer: Tracer,
    ) -> None:
        """start_store_process: None where this process commits feedback itself."""
        self.create_place = create_place
        self.settings, self.workspace, self.metrics = settings, workspace, metrics
        self.is_primary, self.clock, self.new_id = is_primary, time.monotonic, IdGenerator()
        self.encoders = EncoderCache(workspace)
        self.journal, self.journal_writer = workspace.journal_copy(), JournalWriter(workspace.journal)
        try:
            self.work = create_work(workspace, self.journal)
        except ValueError as error:  # an unknown kind
            raise SetupError(str(error)) from None
        self.store = StoreClient(self.work.submit, start_store_process)
        self.rates, self.disk, self.tracer = rates, disk, tracer

    def build(self, spec: ModelSettings) -> ModelRuntime:
        """Build the model. Raises SetupError if the model cannot be created as configured."""
        settings, workspace, metrics = self.settings, self.workspace, self.metrics
        snapshots, stream, feed = workspace.snapshots(spec.name), workspace.sql_stream(spec.name), EventFeed()
        try:
            live = LiveModel(
                spec.kind,
                ModelSource(workspace, spec, self.encoders),
                snapshots,
                lambda before, served: outcomes.record_swap(before, served),
                feed.notify,
                spec.versions,
                settings.max_waiting,
                lambda: runtime.forget_log(),
                self.create_place(spec.name),
                workspace.poll_s,
            )
        except (ValueError, FileNotFoundError) as error:
            raise SetupError(f"model {spec.name!r}: {error}") from None
        relay = self._build_relay(spec, live)

        def wake_relay() -> None:
            if relay is not None:
                relay.wake()

        def wake_learner() -> None:
            stream.wakeup.notify()
            wake_relay()

        transactions = Transactions(
            spec, live, workspace.store, wake_learner, wake_relay, self.new_id, self.disk, self.journal
        )
        recorder = self.work.recorders[spec.name]
        feedback = Feedback(
            settings, transactions, self.store, recorder, feed, metrics, self.clock, self.rates, self.tracer
        )
        outcomes = OutcomeMarker(feedback, feed, metrics, self.clock, self.is_primary)
        runtime = ModelRuntime(
            spec=spec,
            live=live,
            snapshots=snapshots,
            stream=stream,
            transactions=transactions,
            predictor=Predictor(settings, transactions, self.journal_writer, metrics, self.clock, self.rates),
            feedback=feedback,
            outcomes=outcomes,
            repertoire=Repertoire(transactions, settings.max_text_chars),
            relay=relay,
            feed=feed,
            ratings=RatingCounter(spec.name, workspace.store),
            metrics=metrics,
            standstill=StandstillWatch(
                live, stream.head, settings.standstill_s, metrics.standstill_seconds.labels(spec.name).set
            ),
            readiness=Readiness(live, transactions, self.journal_writer),
            starter_replies=read_starter(settings, spec),
        )
        if spec.guard != "off":
            runtime.add_part(
                create_live_monitor(live, workspace.store, spec.guard, metrics.trusted_version.labels(spec.name).set)
            )
        return runtime

    def _build_relay(self, spec: ModelSettings, live: LiveModel) -> StreamRelay | None:
        workspace = self.workspace

        def open_copy(encoder: str) -> Copy | None:
            target = workspace.redis_stream(spec.name, encoder)
            return None if target is None else (workspace.sql_stream(spec.name, encoder), target)

        copy = open_copy(live.encoder_config.encoder_name) if self.is_primary else None
        count_repair = self.metrics.stream_repairs.labels(spec.name).inc
        return None if copy is None else StreamRelay(live, copy, open_copy, count_repair)


class IdGenerator:
    """Makes ids of 32 hex digits that begin with the time, so that new rows end up at the end of their index.

    Random bytes are drawn for many ids at once: each system call releases the interpreter's lock.
    """

    def __init__(self) -> None:
        self._random: Iterator[str] = iter(())

    def __call__(self) -> str:
        return f"{time.time_ns() // 1_000:014x}{next(self._random, None) or self._draw()}"

    def _draw(self) -> str:
        drawn = os.urandom(RANDOM_BYTES * IDS_AT_ONCE)
        self._random = (drawn[at : at + RANDOM_BYTES].hex() for at in range(0, len(drawn), RANDOM_BYTES))
        return next(self._random)
