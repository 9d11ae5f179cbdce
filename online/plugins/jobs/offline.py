"""A batch prediction job without a service: the version is loaded from the snapshots, which a service may use too."""

import time
from contextlib import closing

from online.io.progress import Progress
from online.io.records import ReadLimits
from online.models import input_options
from online.plugins.jobs.batch_job import BatchJob, JobCounts, JobSpec, pin_version, unpin_version
from online.plugins.jobs.batch_rows import DirectReader
from online.serving.answers import render_answer
from online.serving.encoder_sources import EncoderCache, ModelSource
from online.serving.live import LiveModel
from online.settings import ModelSettings
from online.state.workspace import Workspace


def predict_file(
    workspace: Workspace, model: ModelSettings, spec: JobSpec, max_bad_ratio: float, on_progress: Progress
) -> tuple[int, JobCounts]:
    """Do a job, or the rest of it. Returns the version that answered and the counts of rows.

    Raises what `BatchJob` raises, NotFound for an unknown version, and CorruptSnapshot.
    """
    snapshots = workspace.snapshots(model.name)
    on_progress("reading", 0, 1)
    options = input_options(model.kind, model.options)
    reader = DirectReader(ReadLimits.of(workspace.settings))
    with closing(BatchJob(spec, options, max_bad_ratio, pin_version(snapshots), reader=reader)) as job:
        if not job.done:
            source = ModelSource(workspace, model, EncoderCache(workspace))
            live = LiveModel(model.kind, source, snapshots, lambda before, served: None, lambda *_, **__: None)
            with closing(live):
                answer_all(job, live, workspace.settings.max_candidates, on_progress)
            job.finish()
        unpin_version(snapshots, spec)
        return job.version, job.counts


def answer_all(job: BatchJob, live: LiveModel, max_candidates: int, on_progress: Progress) -> None:
    """Answer every row of a job."""
    served, counts = live.load_version(job.version), job.counts
    started_at, done_before = time.monotonic(), counts.done
    for batch in job.batches(served.encoder):
        answers = served.predict(batch.inputs) if batch.inputs else []
        job.write(batch, [render_answer(live.kind, answer, max_candidates) for answer in answers])
        rate = (counts.done - done_before) / max(time.monotonic() - started_at, 1e-3)
        on_progress(f"version {job.version}, {rate:,.0f} rows/s", counts.done, counts.rows)
