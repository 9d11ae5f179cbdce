"""Deletes cohorts some time after their last deadline."""

from datetime import timedelta
from functools import partial

from online.serving.parts import PruningRun, ServicePart
from online.serving.runtime import Runtime
from online_federated.settings import CohortSettings
from online_federated.tables import prune_cohorts

STEP_COHORTS = 1  # of one transaction, which takes milliseconds: a cohort may have a thousand members


class CohortRetention(ServicePart):
    """The retention of the cohorts of all models."""

    def __init__(self, runtime: Runtime) -> None:
        self.settings, self.pruned = runtime.settings.part(CohortSettings), runtime.metrics.pruned

    async def prune(self, pruning: PruningRun) -> None:
        """Delete old cohorts. They are kept for days of their own, not for `retention_days`."""
        before = (pruning.at - timedelta(days=self.settings.cohort_retention_days)).isoformat()
        work = partial(prune_cohorts, before=before, count=STEP_COHORTS)
        while deleted := await pruning.write(work):
            self.pruned.labels("cohorts").inc(deleted)
