"""A batch prediction job without a service: the version is loaded from the snapshots, which a service may use too.

    input --rows--> pieces --this process, or the workers of an engine--> lines --in order--> BatchJob

The rows of a piece are answered in the same batches wherever that is, so the files are the same, byte for byte.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice

from online.io.engines import WorkEngine
from online.io.progress import Progress
from online.io.records import ReadLimits
from online.io.worker_pools import WorkerPool, do_in_order
from online.models import input_options
from online.plugins.jobs.batch_job import BatchJob, JobCounts, JobSpec, pin_version, unpin_version
from online.plugins.jobs.batch_rows import DirectReader, SourceRow
from online.plugins.jobs.row_answers import BATCH_ROWS, Outcome, RowAnswerer, VersionContent, list_modules
from online.serving.encoder_sources import EncoderCache, ModelSource
from online.serving.live import LiveModel
from online.serving.versions import ServedVersion
from online.settings import ModelSettings
from online.state.workspace import Workspace

PIECE_BATCHES = 16  # that travel to a worker together

Rows = list[SourceRow]


class OfflineJob:
    """A job that the command line does."""

    def __init__(self, workspace: Workspace, model: ModelSettings, spec: JobSpec, max_bad_ratio: float) -> None:
        self.workspace, self.model, self.spec, self.max_bad_ratio = workspace, model, spec, max_bad_ratio
        self.reader = DirectReader(ReadLimits.of(workspace.settings))

    def run(self, engine: WorkEngine | None, on_progress: Progress) -> tuple[int, JobCounts]:
        """Do the job, or the rest of it. Returns the version that answered and the counts of rows.

        engine: has the workers that answer; None: this process does all. Raises what `BatchJob` raises, NotFound for an unknown version, CorruptSnapshot, and what an engine raises.
        """
        snapshots = self.workspace.snapshots(self.model.name)
        on_progress("reading", 0, 1)
        options = input_options(self.model.kind, self.model.options)
        pin = pin_version(snapshots)
        with closing(BatchJob(self.spec, options, self.max_bad_ratio, pin, reader=self.reader)) as job:
            if not job.done:
                source = ModelSource(self.workspace, self.model, EncoderCache(self.workspace))
                live = LiveModel(self.model.kind, source, snapshots, lambda before, served: None, lambda *_, **__: None)
                with closing(live):
                    self.answer_all(job, live, engine, on_progress)
                job.finish()
            unpin_version(snapshots, self.spec)
            return job.version, job.counts

    def answer_all(self, job: BatchJob, live: LiveModel, engine: WorkEngine | None, on_progress: Progress) -> None:
        """Answer every row that is left."""
        served, counts = live.load_version(job.version), job.counts
        started_at, done_before = time.monotonic(), counts.done
        for outcomes in self.answer(job, live, served, engine):
            job.write_outcomes(outcomes)
            rate = (counts.done - done_before) / max(time.monotonic() - started_at, 1e-3)
            on_progress(f"version {job.version}, {rate:,.0f} rows/s", counts.done, counts.rows)

    def answer(
        self, job: BatchJob, live: LiveModel, served: ServedVersion, engine: WorkEngine | None
    ) -> Iterator[list[Outcome]]:
        """Yield the outcomes of the rows that are left, in order."""
        most = self.workspace.settings.max_candidates
        answer_here = RowAnswerer(job.rows_request, served.encoder, served.predict, live.kind, most)
        with closing(self.reader.read_unparsed(job.rows_request, job.check)) as rows:
            left = islice(rows, job.counts.done, job.counts.rows)
            if engine is None:
                yield from map(answer_here, cut(left, BATCH_ROWS))
                return
            open_pool = self.choose_pool(job, live, served, engine)
            yield from do_in_order(cut(left, PIECE_BATCHES * BATCH_ROWS), open_pool, answer_here)

    def choose_pool(
        self, job: BatchJob, live: LiveModel, served: ServedVersion, engine: WorkEngine
    ) -> Callable[[], WorkerPool[Rows, list[Outcome]]]:
        """Return what opens workers that answer as the version does."""
        assert served.loaded is not None, "a job has a version"
        config = live.loader.find_config(served.loaded.manifest.recipe, any_encoder=True)
        assert config is not None, "the version was loaded with it"
        options = {**config.options, **live.source.key_option()}
        tuned, max_chars = self.workspace.encoders.find(config.encoder_name), self.workspace.settings.max_text_chars
        content = VersionContent.of(live.kind, options, served.loaded.parts, tuned, max_chars)
        create = content.prepare(job.rows_request, self.workspace.settings.max_candidates)
        return lambda: engine.open_pool(create, list_modules(live.kind), same_processor=True)


def cut(rows: Iterable[SourceRow], count: int) -> Iterator[Rows]:
    """Yield the rows in pieces of this many."""
    remaining = iter(rows)
    while piece := list(islice(remaining, count)):
        yield piece
