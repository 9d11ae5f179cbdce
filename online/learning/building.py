"""Builds the learner of a model from the settings of a service."""

from online.io.cache import cache_folder
from online.learning.base_building import RetentionPeriod
from online.learning.gate import GoldenQuestion, encode_golden_questions
from online.learning.learner import Learner
from online.learning.setup import LearnerSetup
from online.learning.workers import WorkerHost
from online.models import Options, encoder_options
from online.models.devices.turns import LearningQuantum
from online.models.encoders.factory import create_encoder
from online.settings import ModelSettings
from online.state.workspace import Workspace
from online.stream.contract import Stream


def create_learner(
    workspace: Workspace,
    model: ModelSettings,
    options: Options,
    stream: Stream,
    device: str,
    waits_for_disk: bool = True,
    host: WorkerHost | None = None,
) -> Learner:
    """Create a model's learner. options: they name the encoder whose features the stream gives."""
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
        workers=host or WorkerHost(),
        quantum=LearningQuantum(settings.learn_quantum_ms),
    )
    return Learner(model.kind, options, workspace.snapshots(model.name), stream, workspace.store, setup)


def load_golden_questions(workspace: Workspace, model: ModelSettings, options: Options) -> list[GoldenQuestion]:
    """Return the model's golden questions, encoded. The encoder is loaded only if there are any."""
    if not model.golden_questions:
        return []
    settings, tuned = workspace.settings, workspace.tuned(str(options.get("encoder", "")))
    text_encoder = create_encoder(
        encoder_options(model.kind, options), cache_folder(), 1, settings.max_text_chars, tuned
    )
    return encode_golden_questions([(each.input, each.answer) for each in model.golden_questions], text_encoder.encode)
