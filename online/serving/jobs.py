"""The batch prediction jobs of a service: taken, done one at a time beside whoever asks, taken up again after a restart.

asked for --checked--> <state>/jobs/<id>.json --its turn--> BatchJob --a batch at a time--> the batcher's second lane:
                                                                                            when no person waits

Reading, encoding and writing are done by one thread of low priority. How far a job is stands in its own folder
(batch_job.py); what is kept here is who asked for what, and what became of it.
"""

import asyncio
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from online.errors import BadInput, Conflict, Forbidden, NotFound, OnlineError, Overloaded, Unavailable
from online.models import Answer, Encoder
from online.models.encoder import reads
from online.observability import Metrics, fact
from online.schemas import BatchPredictRequest, JobShown
from online.serving.batch_job import Batch, BatchJob, Counts, JobSpec, let_go, locked, pinning, put, written
from online.serving.live import Served
from online.serving.predictor import People, Predictor, shown
from online.settings import Settings
from online.snapshots import Snapshots
from online.store import now
from online.workspace import Workspace

log = logging.getLogger("online.jobs")

T = TypeVar("T")

WAITING = 32  # jobs that wait or run, at most
KEPT = 100  # newest jobs that ended of which it is told what became
NICENESS = 10
PATIENCE_S = 0.05  # the longest wait of a row for a moment in which nobody asks
GOING = ("waiting", "running")
NOT_KEPT = "what became of it could not be written; the service takes it up again at its next start"


@dataclass(slots=True)
class Doing:
    """One that waits or runs."""

    job: BatchJob | None = None
    task: asyncio.Task[None] | None = None
    cancelled: bool = False
    leaving: threading.Event = field(default_factory=threading.Event)

    def leave(self) -> None:
        """End it soon: also what its thread is at."""
        self.leaving.set()
        if self.task is not None:
            self.task.cancel()

    def check(self) -> None:
        if self.leaving.is_set():
            raise Left


class Left(Exception):
    """A job that is cancelled, or whose service stops, reads no further."""


class Considerate:
    """An encoder that is used when nobody asks, or has let it wait for so long. `encode` blocks: not for the event loop."""

    def __init__(self, encoder: Encoder, people: Sequence[People]) -> None:
        self.epoch, self._encoder, self._people = encoder.epoch, encoder, people

    def encode(self, instances: Sequence[Any]) -> list[bytes]:
        for each in self._people:
            each.gone.wait(PATIENCE_S)
        return self._encoder.encode(instances)


class Jobs:
    def __init__(
        self, settings: Settings, workspace: Workspace, predictors: Mapping[str, Predictor], metrics: Metrics
    ) -> None:
        self.settings, self.folder, self.predictors, self.metrics = settings, workspace.jobs, predictors, metrics
        self.doing: dict[str, Doing] = {}
        self._lock: int | None = None  # held by the service that does the jobs of this state
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(
            1, "jobs", lambda: os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        )

    # what there is

    def shown(self, model: str) -> list[JobShown]:
        """All of a model's, the newest first."""
        return [self._as_it_is(each) for each in self._kept() if each.model == model]

    def one(self, model: str, id: str) -> JobShown:
        """Raises NotFound."""
        found = self._read(id) if re.fullmatch("[0-9a-f]{32}", id) else None
        if found is None or found.model != model:
            raise NotFound(f"{model} has no job {id[:40]!r}; of those that ended the newest {KEPT} are told of")
        return self._as_it_is(found)

    def _as_it_is(self, job: JobShown) -> JobShown:
        doing = self.doing.get(job.id)
        if doing is None and job.state in GOING and self._lock is not None:
            return job.model_copy(update={"state": "failed", "error": NOT_KEPT})
        return job if doing is None or doing.job is None else job.model_copy(update=asdict(doing.job.counts))

    def _kept(self) -> list[JobShown]:
        read = [self._read(path.stem) for path in self.folder.glob("[0-9a-f]*.json")]
        return sorted((each for each in read if each is not None), key=lambda each: each.created_at, reverse=True)

    def _read(self, id: str) -> JobShown | None:
        try:
            return JobShown.model_validate_json((self.folder / f"{id}.json").read_bytes())
        except (OSError, ValueError):
            return None  # forgotten meanwhile

    def _tell(self, job: JobShown) -> None:
        with written():
            put(self.folder / f"{job.id}.json", job.model_dump_json().encode())

    # taking one

    async def take(self, model: str, asked: BatchPredictRequest) -> JobShown:
        """It begins when it is its turn. Raises Forbidden, NotFound, BadInput, Conflict, Overloaded or Unavailable."""
        if len(self.doing) >= WAITING:
            raise Overloaded(f"{WAITING} jobs wait already; ask again when one of them is done")
        if self._lock is None:
            raise Unavailable("another service on the same state does its jobs; ask that one")
        job = await asyncio.to_thread(self._taken, model, asked)
        self._begin(job)
        return job

    def _taken(self, model: str, asked: BatchPredictRequest) -> JobShown:
        spec = self._spec(model, asked)
        if not is_file(spec.input):
            raise NotFound(f"there is no file {asked.input!r} under job_folders")
        busy = [
            each
            for each in self._kept()
            if each.id in self.doing and self._spec(each.model, each).output == spec.output
        ]
        if busy:
            raise Conflict(f"job {busy[0].id} writes to {asked.output!r} already; choose another folder")
        snapshots = self.predictors[model].live.snapshots
        snapshots.manifest(snapshots.number_of(str(asked.version)))
        job = JobShown(id=uuid4().hex, model=model, created_at=now(), state="waiting", **asked.model_dump())
        self._tell(job)
        return job

    def _spec(self, model: str, asked: "BatchPredictRequest | JobShown") -> JobSpec:
        input, output = self._inside(asked.input), self._inside(asked.output)
        return JobSpec(input, output, model, str(asked.version), asked.key, asked.format, asked.shards)

    def _inside(self, path: str) -> Path:
        """A path that is not absolute is one in the first folder. Raises Forbidden for what lies, or leads, elsewhere."""
        folders = self.settings.job_folders
        if not folders:
            raise Forbidden("jobs are off here: set job_folders to the folders whose files they may read and write")
        if "\0" in path:
            raise BadInput("a path holds no NUL")
        roots = [folder.resolve() for folder in folders]
        found = (roots[0] / path).resolve()
        if any(found.is_relative_to(root) and found != root for root in roots):
            return found
        raise Forbidden(f"{path[:200]!r} lies under none of job_folders")

    # doing it

    def start(self) -> None:
        """Take up what a service that stopped had not done, the oldest first. Of several on one state one does the jobs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = locked(self.folder)
        except Conflict:
            return
        for job in reversed(self._kept()):
            if job.state in GOING:
                self._begin(job)

    def _begin(self, job: JobShown) -> None:
        doing = self.doing[job.id] = Doing()
        self.metrics.jobs.set(len(self.doing))
        doing.task = asyncio.create_task(self._do(job, doing))

    async def _do(self, job: JobShown, doing: Doing) -> None:
        try:
            async with self._turn:
                ended = await self._outcome(job, doing)
            await self._off(self._end, ended)
        except Unavailable as error:
            fact(log, "job not kept", logging.ERROR, id=job.id, reason=str(error))
        finally:
            del self.doing[job.id]
            self.metrics.jobs.set(len(self.doing))

    async def _outcome(self, job: JobShown, doing: Doing) -> JobShown:
        """What became of it. Cancelled from outside when the service stops: then it goes on at the next start."""
        try:
            spec = self._spec(job.model, job)
            running = job.model_copy(update={"state": "running"})
            await self._off(self._tell, running)
            counts, version = await self._run(running, spec, doing)
            fact(log, "job done", id=job.id, model=job.model, version=version, rows=counts.rows, errors=counts.errors)
            return job.model_copy(update={"state": "done", "model_version": version, **asdict(counts)})
        except OnlineError as error:
            told = asdict(doing.job.counts) if doing.job is not None else {}
            fact(log, "job failed", logging.WARNING, id=job.id, model=job.model, reason=str(error))
            return job.model_copy(update={"state": "failed", "error": self._shown(str(error), job), **told})
        except Exception as error:  # whatever it is, the next job has its turn
            log.error("a job failed inside", exc_info=error)
            reason = f"something failed inside: {type(error).__name__}; the service's log has the details"
            return job.model_copy(update={"state": "failed", "error": reason})

    def _shown(self, error: str, job: JobShown) -> str:
        """An error names files as whoever asked for the job names them."""
        with suppress(OnlineError):
            spec = self._spec(job.model, job)
            return error.replace(str(spec.input), job.input).replace(str(spec.output), job.output)
        return error

    async def _run(self, running: JobShown, spec: JobSpec, doing: Doing) -> tuple[Counts, str]:
        predictor = self.predictors.get(running.model)
        if predictor is None:
            raise NotFound(f"there is no model {running.model!r} any more")
        live, model = predictor.live, predictor.spec
        snapshots, read = live.snapshots, reads(model.kind, model.options)

        def opened() -> BatchJob:
            doing.job = BatchJob(spec, read, running.max_bad_ratio, pinning(snapshots), doing.check)
            return doing.job

        try:
            job = await self._off(opened)
            if not job.done:
                await self._off(self._tell, running.model_copy(update={"model_version": str(job.version)}))
                await self._answer_all(job, predictor)
                await self._off(job.finish)
            await self._off(let_go, snapshots, spec)
            return job.counts, str(job.version)
        finally:
            await self._off(self._left, doing, snapshots)

    @staticmethod
    def _left(doing: Doing, snapshots: Snapshots) -> None:
        if doing.job is not None:
            if doing.cancelled and not doing.job.done:
                doing.job.discard()
                let_go(snapshots, doing.job.spec)
            doing.job.close()

    async def _answer_all(self, job: BatchJob, predictor: Predictor) -> None:
        await predictor.live.refresh_others()
        served = await asyncio.to_thread(predictor.live.one, job.version)
        batches = job.batches(Considerate(served.encoder, [each.people for each in self.predictors.values()]))
        rows = self.metrics.job_rows
        try:
            while (batch := await self._off(next, batches, None)) is not None:
                answers = await self._answers(predictor, served, batch) if batch.inputs else []
                await self._off(self._write, job, batch, predictor.spec.kind, answers)
                rows.labels(predictor.name, "answered").inc(len(answers))
                rows.labels(predictor.name, "refused").inc(len(batch.rows) - len(answers))
        finally:
            await self._off(batches.close)

    @staticmethod
    async def _answers(predictor: Predictor, served: Served, batch: Batch) -> list[Answer]:
        """They are not recorded: nobody can give feedback on them."""
        keys = [None] * len(batch.inputs)
        ask = predictor.batcher.ask
        return (await ask(batch.inputs, served.encoder, keys, None, "", served, of_a_job=True))[1]

    @staticmethod
    def _write(job: BatchJob, batch: Batch, kind: str, answers: Sequence[Answer]) -> None:
        job.write(batch, [shown(kind, each) for each in answers])

    async def _off(self, work: Callable[..., T], *arguments: Any) -> T:
        """Done by the jobs' own thread, and done to its end: a job that is cancelled meanwhile is not left half written."""
        doing = asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.gather(doing, return_exceptions=True)
            raise

    def _end(self, ended: JobShown) -> None:
        self._tell(ended)
        for old in [each for each in self._kept() if each.id not in self.doing][KEPT:]:
            (self.folder / f"{old.id}.json").unlink(missing_ok=True)

    # ending one

    async def cancel(self, model: str, id: str) -> JobShown:
        """End it, and leave nothing of what it had written. Raises NotFound, or Conflict where it has ended."""
        job, doing = await asyncio.to_thread(self.one, model, id), self.doing.get(id)
        if doing is not None and doing.task is not None:
            doing.cancelled = True
            doing.leave()
            await asyncio.gather(doing.task, return_exceptions=True)
            left = await asyncio.to_thread(self._read, id)
            job = left if left is not None else job
        if doing is None or job.state not in GOING:
            raise Conflict(f"job {id} is {job.state}: there is nothing to cancel")
        counts = asdict(doing.job.counts) if doing.job is not None else {}
        cancelled = job.model_copy(update={"state": "cancelled", **counts})
        await self._off(self._end, cancelled)
        return cancelled

    async def stop(self) -> None:
        for doing in self.doing.values():
            doing.leave()
        tasks = [doing.task for doing in self.doing.values() if doing.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._thread.shutdown()
        if self._lock is not None:
            os.close(self._lock)


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # of no name that a file may have
        return False
