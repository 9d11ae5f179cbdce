"""Builds a `Runtime` from settings: opens the store, and joins the parts of every model.

settings -> workspace -> for each model: live, transactions, predictor, feedback, relay -> Runtime
"""

import os
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from online.errors import SetupError
from online.installed import ContributedParts, collect
from online.journal import JournalWriter
from online.models import spec_of
from online.models.devices.observer import DeviceObserver, create_observer
from online.models.devices.probe import Devices, SystemDevices
from online.schemas.models import LearnerState
from online.schemas.replies import NewReply
from online.serving.devices.placing import ServingPlaces, place_models
from online.serving.devices.replica import ServingPlace
from online.serving.disk_space import DiskSpace, measure_space
from online.serving.encoder_sources import EncoderCache, ModelSource
from online.serving.erasure.erasures import Erasures
from online.serving.erasure.progress import ErasableModel
from online.serving.erasure.work import ErasureWork
from online.serving.event_feed import EventFeed
from online.serving.event_retention import EventRetention, ExpiringModel
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.feedback_slots import FeedbackSlots
from online.serving.feedback.outcomes import OutcomeMarker
from online.serving.feedback.work import create_work
from online.serving.live import LiveModel
from online.serving.model_runtime import ModelRuntime
from online.serving.monitoring.live_monitor import LiveMonitor
from online.serving.monitoring.shadow import Shadow
from online.serving.monitoring.standstill import StandstillWatch
from online.serving.predictor import Predictor
from online.serving.processes.child import start_child
from online.serving.processes.journal_copier import JournalCopier
from online.serving.processes.store_client import StoreClient
from online.serving.processes.supervisor import Supervisor
from online.serving.processes.workers import Workers
from online.serving.rates import RateLimits
from online.serving.rating_counter import RatingCounter
from online.serving.repertoire.repertoire import Repertoire, read_repertoire, starter
from online.serving.retention import RetentionJob
from online.serving.runtime import Runtime
from online.serving.stream_relay import Copy, StreamRelay
from online.serving.transactions import Transactions
from online.serving.versions import ServedVersion
from online.settings import ModelSettings, Settings
from online.snapshots import Snapshots
from online.state.guard import Guard
from online.state.workspace import Workspace
from online.store.shadow_answers import ShadowAnswerRow, add_shadow_answers
from online.telemetry import Metrics

RANDOM_BYTES, IDS_AT_ONCE = 9, 256  # of an id; ids whose random part is drawn in one call


def build(
    settings: Settings,
    with_learner: bool,
    is_primary: bool = True,
    with_store_process: bool = True,
    worker: int = 0,
    devices: Devices | None = None,
) -> Runtime:
    """Open everything. Raises SetupError that says what cannot be opened.

    with_learner, with_store_process: keep a learner, and the store process, running beside this process. Without a store
    process, the first worker commits feedback itself, and a thread copies the journal. is_primary: as in `Runtime`.
    worker: number of this process among those that answer. devices: of this machine; None: as torch finds them.
    """
    devices = devices or SystemDevices()
    places = place_models(settings, worker, devices)
    workspace, metrics = Workspace(settings), Metrics()
    if is_primary:
        workspace.check_kinds()
        workspace.store.make_room()
    has_store_process = with_store_process and is_primary
    observer = create_observer(workspace.state, f"worker-{worker}", "server", devices, places.caps)
    builder = ModelBuilder(settings, workspace, metrics, is_primary, has_store_process, places, observer)
    models = {spec.name: builder.build(spec) for spec in settings.models}
    parts = ContributedParts()
    supervisor = build_supervisor(settings, models, metrics) if with_learner else None

    loads = [model.predictor.load for model in models.values()]
    runtime = Runtime(
        settings=settings,
        workspace=workspace,
        metrics=metrics,
        disk=builder.disk,
        rates=builder.rates,
        models=models,
        supervisor=supervisor,
        retention=RetentionJob(
            settings, workspace, metrics, parts, loads, build_event_retention(workspace, models, metrics)
        ),
        store_process=build_store_process(settings, builder.store) if has_store_process else None,
        journal_thread=JournalCopier(workspace.store, builder.journal)
        if is_primary and not with_store_process
        else None,
        feedback_slots=FeedbackSlots(),
        erasures=build_erasures(workspace, models, parts),
        new_id=builder.new_id,
        workers=Workers(settings, metrics.remove_worker),
        observer=observer,
        is_primary=is_primary,
        parts=parts,
    )
    for part in collect("service_part", runtime):
        runtime.parts.add(part)
    for model in models.values():
        for part in collect("model_part", model, runtime):
            model.parts.add(part)
    return runtime


def build_erasures(workspace: Workspace, models: Mapping[str, ModelRuntime], parts: ContributedParts) -> Erasures:
    """Build the erasures, with what each must forget in memory."""

    erasable = {
        name: ErasableModel(model.spec, model.snapshots, model.relay, model.forget_log_of_parts)
        for name, model in models.items()
    }
    work = ErasureWork(workspace, erasable, parts)

    def wake_learners() -> None:
        for model in models.values():
            model.transactions.wake_learner()

    return Erasures(work, wake_learners)


def build_event_retention(workspace: Workspace, models: Mapping[str, ModelRuntime], metrics: Metrics) -> EventRetention:
    """Build the retention of events."""

    def expiring(model: ModelRuntime) -> ExpiringModel:
        live = model.live
        return ExpiringModel(model.spec, model.snapshots, model.relay, lambda: live.encoder_config.recipe)

    return EventRetention(workspace.store, {name: expiring(model) for name, model in models.items()}, metrics)


def build_supervisor(settings: Settings, models: dict[str, ModelRuntime], metrics: Metrics) -> Supervisor:
    """Return the supervisor of the learner; it sends the state of the learner to the subscribers of every model."""

    def on_change(state: LearnerState) -> None:
        metrics.learner_up.set(state.state == "running")
        metrics.learner_restarts.inc(state.state == "restarting")
        for model in models.values():
            model.feed.notify("status", **model.describe(state))

    start_learner = partial(start_child, settings, "learn", "--supervised")
    return Supervisor("learner", start_learner, settings.restart_max_s, on_change)


def build_store_process(settings: Settings, client: StoreClient) -> Supervisor:
    """Return the supervisor of the process that commits feedback, and copies the journal of predictions into the store."""
    return Supervisor("store process", client.start, settings.restart_max_s, lambda state: None)


async def start_store_process(settings: Settings, channel: int) -> Process:
    """channel: file descriptor of its end of the connection."""
    return await start_child(settings, "store", "--supervised", "--channel", str(channel), pass_fds=(channel,))


class ModelBuilder:
    """Builds the runtime of each model from what all of them share."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        metrics: Metrics,
        is_primary: bool,
        has_store_process: bool,
        places: ServingPlaces,
        observer: DeviceObserver,
    ) -> None:
        self.places, self.observer = places, observer
        self.settings, self.workspace, self.metrics = settings, workspace, metrics
        self.is_primary, self.clock, self.new_id = is_primary, time.monotonic, IdGenerator()
        self.encoders = EncoderCache(workspace)
        self.journal, self.journal_writer = workspace.journal_copy(), JournalWriter(workspace.journal)
        try:
            self.work = create_work(workspace, self.journal)
        except ValueError as error:  # an unknown kind
            raise SetupError(str(error)) from None
        self.store = StoreClient(
            self.work.submit, partial(start_store_process, settings) if has_store_process else None
        )
        self.rates = RateLimits(settings)
        self.disk = DiskSpace(partial(measure_space, workspace.state), settings.min_free_bytes, metrics)

    def build(self, spec: ModelSettings) -> ModelRuntime:
        """Build the model. Raises SetupError if the model cannot be created as configured."""
        settings, workspace, metrics = self.settings, self.workspace, self.metrics
        snapshots, stream, feed = workspace.snapshots(spec.name), workspace.sql_stream(spec.name), EventFeed()
        live = self._build_live(
            spec,
            snapshots,
            feed,
            lambda before, served: outcomes.record_swap(before, served),
            lambda: runtime.forget_log(),
        )
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
        feedback = Feedback(settings, transactions, self.store, recorder, feed, metrics, self.clock, self.rates)
        outcomes = OutcomeMarker(feedback, feed, metrics, self.clock, self.is_primary)
        runtime = ModelRuntime(
            spec=spec,
            live=live,
            snapshots=snapshots,
            stream=stream,
            transactions=transactions,
            predictor=self._build_predictor(transactions),
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
            starter_replies=self._read_starter_replies(spec),
        )
        return runtime

    def _build_live(
        self,
        spec: ModelSettings,
        snapshots: Snapshots,
        feed: EventFeed,
        on_swap: Callable[[ServedVersion, ServedVersion], None],
        on_set_aside: Callable[[], None],
    ) -> LiveModel:
        try:
            source = ModelSource(self.workspace, spec, self.encoders)
            return LiveModel(
                spec.kind,
                source,
                snapshots,
                on_swap,
                feed.notify,
                spec.versions,
                self.settings.max_waiting,
                on_set_aside,
                self._build_place(spec.name),
            )
        except (ValueError, FileNotFoundError) as error:
            raise SetupError(f"model {spec.name!r}: {error}") from None

    def _build_place(self, model: str) -> ServingPlace:
        wanted = self.places.of_model[model]
        self.observer.place(model, wanted, wanted)
        return ServingPlace(wanted, partial(self.observer.note, model), partial(self.observer.move, model))

    def _build_predictor(self, transactions: Transactions) -> Predictor:
        live, name = transactions.live, transactions.name

        async def write_shadows(rows: Sequence[ShadowAnswerRow]) -> None:
            await transactions.write(lambda connection: add_shadow_answers(connection, rows))

        def create_guard() -> Guard:
            """Return the recipe, computed each time, because it changes with the encoder."""
            return Guard(live.snapshots, self.workspace.store, live.encoder_config.recipe, transactions.spec.guard)

        shadow = Shadow(live, write_shadows, self.metrics.shadows_dropped.labels(name))
        show_trusted = self.metrics.trusted_version.labels(name).set
        monitor = LiveMonitor(live, create_guard, show_trusted) if transactions.spec.guard != "off" else None
        return Predictor(
            self.settings, transactions, self.journal_writer, self.metrics, self.clock, shadow, monitor, self.rates
        )

    def _build_relay(self, spec: ModelSettings, live: LiveModel) -> StreamRelay | None:
        workspace = self.workspace

        def open_copy(encoder: str) -> Copy | None:
            target = workspace.redis_stream(spec.name, encoder)
            return None if target is None else (workspace.sql_stream(spec.name, encoder), target)

        copy = open_copy(live.encoder_config.encoder_name) if self.is_primary else None
        count_repair = self.metrics.stream_repairs.labels(spec.name).inc
        return None if copy is None else StreamRelay(live, copy, open_copy, count_repair)

    def _read_starter_replies(self, spec: ModelSettings) -> list[NewReply]:
        return read_repertoire(self.settings.repertoire or starter()) if spec_of(spec.kind).has_repertoire else []


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
