"""The one thread that generates, and the adapter in force.

    submit: adapter of the request --> waiting --> batch of the adapter --one token in turn--> ended
    switch: load beside the others --> in force for requests that are submitted from now on
                                                     an adapter without requests that is not in force --> unloaded

A request gets its adapter when it is submitted, and keeps it. Batches of different adapters take turns, and each adapter has
places of its own, so that requests of one never wait for those of another.
"""

import logging
import threading
from collections import Counter, deque
from concurrent.futures import Future

from online.errors import Unavailable
from online_adapters.adapted_model import AdaptedModel
from online_adapters.adapter_folder import BASE
from online_adapters.batch import AnswerBatch, AnswerPiece, GenerationJob

logger = logging.getLogger(__name__)
MAX_ROWS = 16  # of one adapter at once


class Generator:
    """A thread that answers jobs with the adapters of one model. in_force: the adapter of jobs that name none."""

    def __init__(self, model: AdaptedModel, max_rows: int = MAX_ROWS) -> None:
        self.model, self.in_force = model, BASE
        self._max_rows = max_rows
        self._changed = threading.Condition()
        self._waiting, self._running = list[GenerationJob](), list[GenerationJob]()
        self._batches = list[AnswerBatch]()
        self._switches = deque[tuple[str, Future[None]]]()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="generator", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what has been submitted, and end the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether jobs are answered."""
        return self._thread.is_alive()

    def submit(self, job: GenerationJob, adapter: str | None = None) -> str:
        """Queue a job; return its adapter. adapter: None is the one in force. Raises Unavailable."""
        with self._changed:
            if self._is_stopping:
                raise Unavailable("this server is stopping; send the request to another one, or later")
            job.adapter = self.in_force if adapter is None else adapter
            self._waiting.append(job)
            self._changed.notify()
            return job.adapter

    def switch(self, name: str) -> Future[None]:
        """Load an adapter, then put it in force. The future raises NotFound and BadInput."""
        done = Future[None]()
        with self._changed:
            self._switches.append((name, done))
            self._changed.notify()
        return done

    def count_jobs(self) -> Counter[str]:
        """Return the number of jobs that have not ended, by adapter."""
        with self._changed:
            return Counter(job.adapter for job in (*self._waiting, *self._running))

    def _run(self) -> None:
        while self._wait():
            while self._switches:
                self._switch(*self._switches.popleft())
            for jobs in self._admit():
                self._begin(jobs)
            for batch in self._batches:
                self._advance(batch)
            self._tidy()

    def _wait(self) -> bool:
        """Return whether there is more to do, once there is."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._batches or self._switches or self._is_stopping)
            return bool(self._waiting or self._batches or self._switches or not self._is_stopping)

    def _switch(self, name: str, done: Future[None]) -> None:
        try:
            self.model.load(name)
            with self._changed:
                self.in_force = name
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _admit(self) -> list[list[GenerationJob]]:
        """Take jobs from the queue while their adapters have places; return them by adapter."""
        with self._changed:
            rows = Counter(job.adapter for batch in self._batches for job in batch.jobs)
            admitted = dict[str, list[GenerationJob]]()
            rest = list[GenerationJob]()
            for job in self._waiting:
                if job.is_cancelled:
                    job.emit(AnswerPiece("", "stop"))
                elif rows[job.adapter] < self._max_rows:
                    rows[job.adapter] += 1
                    admitted.setdefault(job.adapter, []).append(job)
                else:
                    rest.append(job)
            self._waiting = rest
            self._running += [job for jobs in admitted.values() for job in jobs]
            return list(admitted.values())

    def _begin(self, jobs: list[GenerationJob]) -> None:
        try:
            self.model.load(jobs[0].adapter)
            self._batches.append(AnswerBatch(self.model, jobs))
        except Exception as error:
            self._fail(jobs, error)

    def _advance(self, batch: AnswerBatch) -> None:
        jobs = batch.jobs
        try:
            batch.step()
        except Exception as error:
            batch.jobs = []
            self._fail(jobs, error)

    def _join(self, batch: AnswerBatch, later: AnswerBatch) -> None:
        jobs = [*batch.jobs, *later.jobs]
        try:
            batch.join(later)
        except Exception as error:
            batch.jobs = []
            self._fail(jobs, error)

    def _fail(self, jobs: list[GenerationJob], error: Exception) -> None:
        logger.exception("%d answers failed", len(jobs), exc_info=error)
        for job in jobs:
            if not job.ended:
                job.fail(error)

    def _tidy(self) -> None:
        """Join batches of the same adapter; forget what has ended; unload adapters that are not needed."""
        batches = list[AnswerBatch]()
        for batch in self._batches:
            if batch.jobs:
                first = next((each for each in batches if each.jobs and each.can_join(batch)), None)
                if first is None:
                    batches.append(batch)
                else:
                    self._join(first, batch)
        self._batches = batches
        with self._changed:
            for job in self._running:
                if job.is_cancelled and not job.ended:
                    job.emit(AnswerPiece("", "stop", job.tokens_out))
            self._running = [job for job in self._running if not (job.ended or job.is_cancelled)]
            needed = {self.in_force, *(job.adapter for job in (*self._waiting, *self._running))}
        for name in self.model.loaded - needed:
            self.model.unload(name)
