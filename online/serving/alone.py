"""A batch prediction job without a service: the version is loaded here, from the snapshots that a service may be using too."""

import time
from collections.abc import Callable
from contextlib import closing

from online.models.encoder import reads
from online.serving.batch_job import BatchJob, Counts, JobSpec, let_go, pinning
from online.serving.live import LiveModel
from online.serving.parts import Encoders, ModelSource
from online.serving.predictor import shown
from online.settings import ModelSettings
from online.workspace import Workspace

Tick = Callable[[str, int, int], None]  # what is going on, rows done, rows in all


def predict_file(
    workspace: Workspace, model: ModelSettings, spec: JobSpec, max_bad_ratio: float, tick: Tick
) -> tuple[int, Counts]:
    """Do the job, or what is left of it: (the version that answered, how many rows became what).

    Raises what a BatchJob raises, NotFound for a version that is not there, and CorruptSnapshot.
    """
    snapshots = workspace.snapshots(model.name)
    tick("reading", 0, 1)
    with closing(BatchJob(spec, reads(model.kind, model.options), max_bad_ratio, pinning(snapshots))) as job:
        if not job.done:
            source = ModelSource(workspace, model, Encoders(workspace))
            live = LiveModel(model.kind, source, snapshots, lambda before, served: None, lambda *_, **__: None)
            with closing(live):
                answer_all(job, live, tick)
            job.finish()
        let_go(snapshots, spec)
        return job.version, job.counts


def answer_all(job: BatchJob, live: LiveModel, tick: Tick) -> None:
    served, counts = live.one(job.version), job.counts
    started_at, begun = time.monotonic(), counts.done
    for batch in job.batches(served.encoder):
        answers = served.model.predict(batch.inputs) if batch.inputs else []
        job.write(batch, [shown(live.kind, each) for each in answers])
        rate = (counts.done - begun) / max(time.monotonic() - started_at, 1e-3)
        tick(f"version {job.version}, {rate:,.0f} rows/s", counts.done, counts.rows)
