"""Builds a `Runtime` from settings: opens the store, and joins the parts of every model.

settings -> workspace -> for each model: live, transactions, predictor, feedback, relay -> Runtime
"""

from asyncio.subprocess import Process
from collections.abc import Mapping
from functools import partial

from online.installed import ContributedParts, collect
from online.models.devices.observer import create_observer
from online.models.devices.probe import Devices, SystemDevices
from online.schemas.models import LearnerState
from online.serving.devices.placing import place_models
from online.serving.devices.replica import ServingPlace
from online.serving.disk_space import DiskSpace, measure_space
from online.serving.erasure.erasures import Erasures
from online.serving.erasure.progress import ErasableModel
from online.serving.erasure.work import ErasureWork
from online.serving.event_retention import EventRetention, ExpiringModel
from online.serving.feedback.feedback_slots import FeedbackSlots
from online.serving.model_building import ModelBuilder
from online.serving.model_runtime import ModelRuntime
from online.serving.processes.child import start_child
from online.serving.processes.journal_copier import JournalCopier
from online.serving.processes.store_client import StoreClient
from online.serving.processes.supervisor import Supervisor
from online.serving.processes.workers import Workers
from online.serving.rates import create_rate_limits
from online.serving.retention import RetentionJob
from online.serving.runtime import Runtime
from online.settings import Settings
from online.state.workspace import Workspace
from online.telemetry import Metrics, find_tracer


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
        workspace.check_keys()
        workspace.store.make_room()
    has_store_process = with_store_process and is_primary
    observer = create_observer(workspace.state, f"worker-{worker}", "server", devices, places.caps)
    start_store = partial(start_store_process, settings) if has_store_process else None

    def create_place(model: str) -> ServingPlace:
        wanted = places.of_model[model]
        observer.place(model, wanted, wanted)
        return ServingPlace(wanted, partial(observer.note, model), partial(observer.move, model))

    rates = create_rate_limits(settings, workspace)
    disk = DiskSpace(partial(measure_space, workspace.state), settings.min_free_bytes, metrics)
    tracer = find_tracer(workspace.state, f"worker-{worker}")
    builder = ModelBuilder(settings, workspace, metrics, is_primary, start_store, create_place, rates, disk, tracer)
    models = {spec.name: builder.build(spec) for spec in settings.models}
    parts = ContributedParts()
    supervisor = build_supervisor(settings, models, metrics) if with_learner else None

    loads = [model.predictor.load for model in models.values()]
    runtime = Runtime(
        settings=settings,
        workspace=workspace,
        metrics=metrics,
        tracer=tracer,
        disk=disk,
        rates=rates,
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
            model.add_part(part)
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
