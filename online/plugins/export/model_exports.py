"""The exports of one model that the service keeps."""

from online.plugins.export.deltas import VersionDeltas
from online.plugins.export.encoder_files import EncoderFiles
from online.plugins.export.learner_files import LearnerFiles
from online.plugins.export.version_exports import VersionExports
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart
from online.serving.runtime import Runtime


class ModelExports(ModelPart):
    """Creates the exports of one model, and keeps the last ones."""

    def __init__(self, model: ModelRuntime, runtime: Runtime) -> None:
        workspace, loader = runtime.workspace, model.live.loader
        self.versions = VersionExports(workspace, loader, runtime.disk)
        self.learner_files = LearnerFiles(workspace, loader)
        self.deltas = VersionDeltas()
        self.encoder_files = EncoderFiles(workspace, model.spec.name)

    def forget_log(self) -> None:
        """Forget files that erased events have entered."""
        self.learner_files.forget()
        self.deltas.forget()


def exports_of(model: ModelRuntime) -> ModelExports:
    """Return this plugin's part of a model."""
    return model.parts.find(ModelExports)
