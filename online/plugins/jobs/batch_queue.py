"""The batch prediction jobs of a service: accepted, run one at a time, continued after a restart.

request --checked--> <state>/jobs/<id>.json --its turn--> BatchJob --batches--> the batcher's queue for jobs:
                                                                                answered when no other request waits

One thread of low priority reads, encodes and writes. The progress of a job is in its own folder
(batch_job.py); the records here hold the requests, and what became of them.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from online.errors import BadInput, Conflict, Forbidden, NotFound, OnlineError, Overloaded, Unavailable
from online.models import Answer, Encoder, input_options
from online.plugins.jobs.batch_files import Check
from online.plugins.jobs.batch_job import BatchJob, JobCounts, JobSpec, pin_version, unpin_version
from online.plugins.jobs.batch_records import MAX_ENDED, JobRecords, find_job_folder
from online.plugins.jobs.batch_rows import RowBatch
from online.plugins.jobs.metrics import JobMetrics
from online.plugins.jobs.row_process import ProcessReader
from online.plugins.jobs.schemas import BatchPredictRequest, JobStatus
from online.plugins.jobs.settings import JobSettings
from online.serving.answers import render_answer
from online.serving.batcher import AwaitedRequest, InteractiveLoad
from online.serving.parts import PruningRun, ServicePart
from online.serving.predictor import Predictor
from online.serving.processes.time_limit import limited_time
from online.serving.runtime import Runtime
from online.serving.versions import ServedVersion
from online.settings import Settings
from online.snapshots import Snapshots
from online.store import now
from online.telemetry import log_event

log = logging.getLogger("online.jobs")

T = TypeVar("T")

MAX_JOBS = 32  # waiting or running
NICENESS = 10
MAX_YIELD_S = 0.05  # the longest that a row waits for a moment without interactive requests
UNFINISHED = ("waiting", "running")
CONTINUES = "; what is done is kept, and the same job continues from there"
NOT_RECORDED = "its outcome could not be written; the service continues it at its next start"


class JobCancelled(Exception):
    """Ends the reading of a job that was cancelled, or whose service stops."""


@dataclass(slots=True)
class RunningJob:
    """A job that waits or runs. check_time: raises an error once it has taken too long."""

    job: BatchJob | None = None
    check_time: Check = lambda: None
    task: asyncio.Task[None] | None = None
    is_cancelled: bool = False
    leaving: threading.Event = field(default_factory=threading.Event)

    def leave(self) -> None:
        """End it soon, with the work of its thread."""
        self.leaving.set()
        if self.task is not None:
            self.task.cancel()

    def check(self) -> None:
        """Raise JobCancelled once the job is to leave."""
        self.check_time()
        if self.leaving.is_set():
            raise JobCancelled


class YieldingEncoder:
    """An encoder that waits for a moment without interactive requests before each instance, but not for long.

    `encode` blocks, so it must not be called on the event loop.
    """

    def __init__(self, encoder: Encoder, loads: Sequence[InteractiveLoad]) -> None:
        self.epoch, self.is_slow, self.quick_chars = encoder.epoch, encoder.is_slow, encoder.quick_chars
        self._encoder, self._loads = encoder, loads

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Encode one by one, each when no interactive request waits, or after a short time."""
        return [self._encode_one(instance) for instance in instances]

    def _encode_one(self, instance: object) -> bytes:
        for load in self._loads:
            load.gone.wait(MAX_YIELD_S)
        return self._encoder.encode([instance])[0]


class BatchQueue(ServicePart):
    """Accepts, runs and cancels the batch prediction jobs of every model."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.settings = runtime, runtime.settings
        self.folder, self.metrics = find_job_folder(runtime.workspace), runtime.metrics.parts.find(JobMetrics)
        self.predictors = {name: model.predictor for name, model in runtime.models.items()}
        self.records = JobRecords(self.folder)
        self.running: dict[str, RunningJob] = {}
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(
            1, "jobs", lambda: os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        )

    # reading jobs

    def list_jobs(self, model: str) -> list[JobStatus]:
        """Return all jobs of a model, newest first."""
        return [self._with_progress(job) for job in self.records.list_jobs() if job.model == model]

    def load(self, model: str, id: str) -> JobStatus:
        """Return what is stored under an id. Raises NotFound."""
        return self._with_progress(self.records.load(model, id))

    def _with_progress(self, job: JobStatus) -> JobStatus:
        running = self.running.get(job.id)
        if running is None and job.state in UNFINISHED and self.runtime.is_first:
            return job.model_copy(update={"state": "failed", "error": NOT_RECORDED})
        if running is None or running.job is None:
            return job
        return job.model_copy(update=asdict(running.job.counts))

    # accepting a job

    async def submit(self, model: str, request: BatchPredictRequest) -> JobStatus:
        """Accept a job; it runs when its turn comes.

        Raises Forbidden, NotFound, BadInput, Conflict, Overloaded or Unavailable.
        """
        if len(self.running) >= MAX_JOBS:
            raise Overloaded(f"{MAX_JOBS} jobs are waiting already; send the request again when one of them has ended")
        if not self.runtime.is_first:
            raise Unavailable(
                "another service on the same state folder runs its jobs; send the request to that service"
            )
        job = await asyncio.to_thread(self._accept, model, request)
        self._begin(job)
        return job

    def _accept(self, model: str, request: BatchPredictRequest) -> JobStatus:
        spec = self._build_spec(model, request)
        if not is_file(spec.input):
            raise NotFound(f"there is no file {request.input!r} under job_folders")
        unfinished = [job for job in self.records.list_jobs() if job.id in self.running]
        busy = next((job for job in unfinished if self._build_spec(job.model, job).output == spec.output), None)
        if busy is not None:
            raise Conflict(f"job {busy.id} writes to {request.output!r} already; choose another folder")
        snapshots = self.predictors[model].live.snapshots
        snapshots.folder.manifest(snapshots.labels.resolve(str(request.version)))
        job = JobStatus(id=uuid4().hex, model=model, created_at=now(), state="waiting", **request.model_dump())
        self.records.save(job)
        return job

    def _build_spec(self, model: str, request: BatchPredictRequest) -> JobSpec:
        input, output = resolve_path(self.settings, request.input), resolve_path(self.settings, request.output)
        return JobSpec(input, output, model, str(request.version), request.key, request.format, request.shards)

    # running a job

    async def start(self) -> None:
        """Continue the jobs that a stopped service left unfinished, oldest first.

        Of several services on one state folder, only the first one runs jobs.
        """
        if not self.runtime.is_first:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        for job in reversed(self.records.list_jobs()):
            if job.state in UNFINISHED:
                self._begin(job)

    def _begin(self, job: JobStatus) -> None:
        running = self.running[job.id] = RunningJob()
        self.metrics.jobs.set(len(self.running))
        running.task = asyncio.create_task(self._do(job, running))

    async def _do(self, job: JobStatus, running: RunningJob) -> None:
        try:
            async with self._turn:
                ended = await self._run_to_end(job, running)
            await self._in_thread(self._record_end, ended)
        except Unavailable as error:
            log_event(log, "job state not saved", logging.ERROR, id=job.id, reason=str(error))
        finally:
            del self.running[job.id]
            self.metrics.jobs.set(len(self.running))

    async def _run_to_end(self, job: JobStatus, running: RunningJob) -> JobStatus:
        """Return what became of a job. It is cancelled when the service stops, and continued at the next start."""
        try:
            spec = self._build_spec(job.model, job)
            started = job.model_copy(update={"state": "running"})
            await self._in_thread(self.records.save, started)
            async with limited_time(self.settings, CONTINUES) as running.check_time:
                counts, version = await self._run(started, spec, running)
            counted = {"rows": counts.rows, "errors": counts.errors}
            log_event(log, "job done", id=job.id, model=job.model, version=version, **counted)
            return job.model_copy(update={"state": "done", "model_version": version, **asdict(counts)})
        except OnlineError as error:
            counts_so_far = asdict(running.job.counts) if running.job is not None else {}
            log_event(log, "job failed", logging.WARNING, id=job.id, model=job.model, reason=str(error))
            reason = self._with_caller_paths(str(error), job)
            return job.model_copy(update={"state": "failed", "error": reason, **counts_so_far})
        except Exception as error:  # of any sort: the next job must have its turn
            log.error("a job failed with an internal error", exc_info=error)
            reason = f"something failed inside: {type(error).__name__}; the service's log has the details"
            return job.model_copy(update={"state": "failed", "error": reason})

    def _with_caller_paths(self, error: str, job: JobStatus) -> str:
        """Return an error that names files as the caller named them."""
        with suppress(OnlineError):
            spec = self._build_spec(job.model, job)
            return error.replace(str(spec.input), job.input).replace(str(spec.output), job.output)
        return error

    async def _run(self, started: JobStatus, spec: JobSpec, running: RunningJob) -> tuple[JobCounts, str]:
        predictor = self.predictors.get(started.model)
        if predictor is None:
            raise NotFound(f"there is no model {started.model!r} any more")
        snapshots = predictor.live.snapshots
        options = input_options(predictor.spec.kind, predictor.spec.options)

        reader = ProcessReader(self.settings)

        def open_job() -> BatchJob:
            running.job = BatchJob(spec, options, started.max_bad_ratio, pin_version(snapshots), running.check, reader)
            return running.job

        try:
            job = await self._in_thread(open_job)
            if not job.done:
                await self._in_thread(self.records.save, started.model_copy(update={"model_version": str(job.version)}))
                await self._answer_all(job, predictor)
                await self._in_thread(job.finish)
            await self._in_thread(unpin_version, snapshots, spec)
            return job.counts, str(job.version)
        finally:
            await self._in_thread(self._close_job, running, snapshots)

    @staticmethod
    def _close_job(running: RunningJob, snapshots: Snapshots) -> None:
        if running.job is not None:
            if running.is_cancelled and not running.job.done:
                running.job.discard()
                unpin_version(snapshots, running.job.spec)
            running.job.close()

    async def _answer_all(self, job: BatchJob, predictor: Predictor) -> None:
        await predictor.live.refresh_others()
        served = await asyncio.to_thread(predictor.live.load_version, job.version)
        batches = job.batches(YieldingEncoder(served.encoder, [each.load for each in self.predictors.values()]))
        rows = self.metrics.rows
        try:
            while (batch := await self._in_thread(next, batches, None)) is not None:
                answers = await self._answer(predictor, served, batch) if batch.inputs else []
                await self._in_thread(self._write, job, batch, predictor.spec.kind, answers)
                rows.labels(predictor.name, "answered").inc(len(answers))
                rows.labels(predictor.name, "refused").inc(len(batch.rows) - len(answers))
        finally:
            await self._in_thread(batches.close)

    @staticmethod
    async def _answer(predictor: Predictor, served: ServedVersion, batch: RowBatch) -> list[Answer]:
        """Return the answers to a batch. They are not recorded, so they accept no feedback."""
        keys = [None] * len(batch.inputs)
        pending = AwaitedRequest(batch.inputs, served.encoder, keys, pinned=served)
        predictor.batcher.submit_for_job(pending)
        return (await pending.result)[1]

    def _write(self, job: BatchJob, batch: RowBatch, kind: str, answers: Sequence[Answer]) -> None:
        job.write(batch, [render_answer(kind, answer, self.settings.max_candidates) for answer in answers])

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Run `work` to its end in the jobs' thread: a job that is cancelled is not left half written."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.gather(future, return_exceptions=True)
            raise

    def _record_end(self, ended: JobStatus) -> None:
        self.records.save(ended)
        for old in [job for job in self.records.list_jobs() if job.id not in self.running][MAX_ENDED:]:
            self.records.delete(old)

    # ending jobs

    async def cancel(self, model: str, id: str) -> JobStatus:
        """End a job and delete what it has written. Raises NotFound, or Conflict if it has ended."""
        job, running = await asyncio.to_thread(self.load, model, id), self.running.get(id)
        if running is not None and running.task is not None:
            running.is_cancelled = True
            running.leave()
            await asyncio.gather(running.task, return_exceptions=True)
            recorded = await asyncio.to_thread(self.records.read, id)
            job = job if recorded is None else recorded
        if running is None or job.state not in UNFINISHED:
            raise Conflict(f"job {id} is {job.state}: there is nothing to cancel")
        counts = asdict(running.job.counts) if running.job is not None else {}
        cancelled = job.model_copy(update={"state": "cancelled", **counts})
        await self._in_thread(self._record_end, cancelled)
        return cancelled

    async def prune(self, pruning: PruningRun) -> None:
        """Delete the records and results of old jobs."""
        if pruning.before is not None:
            pruned = await asyncio.to_thread(self._remove_records, pruning.before)
            self.runtime.metrics.pruned.labels("jobs").inc(pruned)

    def _remove_records(self, before: str) -> int:
        """Delete the records of jobs that were requested before an instant and have ended; return how many."""
        old = [job for job in self.records.list_jobs() if job.state not in UNFINISHED and job.created_at < before]
        for job in old:
            self.records.delete(job)
        return len(old)

    async def close(self) -> None:
        """Interrupt the running job; it continues after a restart."""
        for running in self.running.values():
            running.leave()
        tasks = [running.task for running in self.running.values() if running.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._thread.shutdown()


def resolve_path(settings: Settings, path: str) -> Path:
    """Return the absolute path of a file of a job; a relative one is in the first folder.

    Raises Forbidden for a path outside all of them.
    """
    folders = settings.part(JobSettings).job_folders
    if not folders:
        raise Forbidden(
            "batch prediction jobs are disabled: set job_folders to the folders whose files they may read and write"
        )
    if "\0" in path:
        raise BadInput("a path cannot contain a NUL character")
    roots = [folder.resolve() for folder in folders]
    resolved = (roots[0] / path).resolve()
    if any(resolved.is_relative_to(root) and resolved != root for root in roots):
        return resolved
    raise Forbidden(f"{path[:200]!r} is not in any of job_folders")


def is_file(path: Path) -> bool:
    """Return whether a path is a file."""
    try:
        return path.is_file()
    except OSError:  # the name is one that no file can have
        return False
