"""Builds the learner of a model from the settings of a service."""

from contextlib import suppress

from online.learning.base_building import RetentionPeriod
from online.learning.golden_questions import load_golden_questions
from online.learning.learner import Learner
from online.learning.lease import LearnerLease
from online.learning.setup import LearnerSetup
from online.learning.workers import WorkerHost
from online.models import Options, create, is_exact
from online.models.devices.turns import LearningQuantum
from online.settings import ModelSettings
from online.state.workspace import Workspace
from online.stream.contract import Stream
from online.telemetry import Tracer


def create_lease(workspace: Workspace, model: ModelSettings) -> LearnerLease | None:
    """Return the lease that a learner of this model needs, which is not taken yet; None where any number may learn it."""
    if not workspace.store.is_shared or is_exact(model.kind, model.options):
        return None
    return LearnerLease(workspace.store, model.name, workspace.replica)


def import_kind(workspace: Workspace, model: ModelSettings) -> None:
    """Create a model and drop it, so that the libraries of its kind, which may take seconds, are imported."""
    with suppress(Exception):  # of whatever sort: the learner meets it again, and reports it
        create(model.kind, workspace.options(model))


def create_learner(
    workspace: Workspace,
    model: ModelSettings,
    options: Options,
    stream: Stream,
    device: str,
    waits_for_disk: bool = True,
    host: WorkerHost | None = None,
    lease: LearnerLease | None = None,
    tracer: Tracer | None = None,
) -> Learner:
    """Create a model's learner. options: they name the encoder whose features the stream gives. lease: held for this learner."""
    settings = workspace.settings
    setup = LearnerSetup(
        device=device,
        batch=settings.learn_batch,
        publish_every_ms=settings.publish_every_ms,
        durable_every_s=settings.durable_every_s,
        drift=model.drift,
        guard=model.guard,
        golden_questions=load_golden_questions(workspace, model, options),
        retention=None if settings.event_retention_days is None else RetentionPeriod(settings.event_retention_days),
        is_outdated=lambda: workspace.key_option(model).get("key") != options.get("key"),
        waits_for_disk=waits_for_disk,
        idle_ms=1000 * workspace.poll_s,
        replica=workspace.replica,
        lease=lease,
        workers=host or WorkerHost(),
        quantum=LearningQuantum(settings.learn_quantum_ms),
        tracer=tracer or Tracer(),
    )
    return Learner(model.kind, options, workspace.snapshots(model.name), stream, workspace.store, setup)
