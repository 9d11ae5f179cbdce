"""The monitoring of one model: its prequential curve, its verdict, and the comparison of its versions."""

from online.models import spec_of
from online.plugins.monitoring.curve import CurveKeeper
from online.plugins.monitoring.health import HealthCheck, ModelHealth, Ratings
from online.plugins.monitoring.version_changes import VersionComparison
from online.schemas.models import LearnerState
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart
from online.serving.runtime import Runtime


class ModelMonitoring(ModelPart):
    """The monitoring of one model."""

    def __init__(self, model: ModelRuntime, runtime: Runtime) -> None:
        name, numbers = model.spec.name, spec_of(model.spec.kind).predicts_numbers
        self.curve = CurveKeeper(name, numbers, runtime.workspace.store, model.feed.notify)
        self.comparison = VersionComparison(name, model.live, numbers, model.read)
        self._check = HealthCheck(name, model.live, self.curve, model.read)

    async def assess(self, learner: LearnerState) -> ModelHealth:
        """Return the verdict on the model, and what it rests on. Raises Unavailable if the store does not answer."""
        return await self._check.assess(learner)

    async def rate(self) -> Ratings:
        """Return the figures that the verdict rests on. Raises Unavailable if the store does not answer."""
        return await self._check.rate()

    def forget_log(self) -> None:
        """Count the log again, and forget the answers that were compared. It may wait for a page of the log."""
        self.comparison.forget()
        self.curve.forget()

    async def close(self) -> None:
        await self.curve.stop()
