"""Micro-batches: many single requests become one model call and one transaction of rows.

    ask --queue--> [all that wait, up to max_batch] -> one snapshot -> model.predict -> rows -> answers
                                                       (one call for each requested version)

While one batch is committed the next one gathers. Batches grow with the load and hold one request
when it is low; no request waits for others to come. The queue is bounded, and a request whose
deadline has passed is dropped before the model is called.

Requests of batch prediction jobs have a queue of their own. They are answered when no interactive
request waits, however long that takes, and one at a time, so that their answers do not depend on
other requests.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from online.errors import DeadlineExceeded, EncoderMoved, Overloaded
from online.models import Answer, Encoder
from online.serving.versions import ServedVersion
from online.telemetry import Metrics

Rows = list[dict[str, object]]
MakeRows = Callable[[ServedVersion, Sequence[Answer]], Rows]


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """The encoded instances of one request, waiting for their answers.

    encoder: of the inputs; the version that answers must use the same one. keys: one per
    instance, from which an exploring policy draws; None for a request that is not recorded.
    make_rows: makes the rows to record; None records nothing. recorded_by: name of the encoder of
    the features in the rows. pinned: the version that must answer; None for the live one.
    arrived_at, deadline: by the batcher's clock.
    """

    inputs: Sequence[bytes]
    encoder: Encoder
    keys: Sequence[int | None]
    make_rows: MakeRows | None
    recorded_by: str
    pinned: ServedVersion | None
    arrived_at: float
    deadline: float
    result: "asyncio.Future[tuple[ServedVersion, list[Answer]]]"


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a batcher.

    max_batch: instances in one call. max_waiting: instances in the queue. timeout_s: longest wait in it.
    """

    max_batch: int
    max_waiting: int
    timeout_s: float


class Observer(Protocol):
    """Is called for every micro-batch."""

    def gathered(self, size: int, waited_s: float, still_waiting: int) -> None:
        """Interactive requests were gathered: how many instances, and how long the first one waited."""

    def computed(self, seconds: float) -> None:
        """The model has worked for this time."""


class BatchMetrics:
    """Observes micro-batches of one model as Prometheus metrics."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.size, self.waited = metrics.batch_instances.labels(model), metrics.wait_seconds.labels(model)
        self.waiting, self.compute = metrics.waiting_instances.labels(model), metrics.compute_seconds.labels(model)

    def gathered(self, size: int, waited_s: float, still_waiting: int) -> None:
        self.size.observe(size)
        self.waited.observe(waited_s)
        self.waiting.set(still_waiting)

    def computed(self, seconds: float) -> None:
        self.compute.observe(seconds)


class Batcher:
    """Gathers the requests to one model and answers them in batches."""

    def __init__(
        self,
        current: Callable[[], ServedVersion],
        write: Callable[[Rows, Set[str]], Awaitable[None]],
        limits: Limits,
        observer: Observer,
        clock: Callable[[], float],
    ) -> None:
        """current: returns the live version. write: commits rows; its second argument names encoders."""
        self._current, self._write, self._limits = current, write, limits
        self._observer, self._clock = observer, clock
        self._interactive: deque[PendingRequest] = deque()
        self._jobs: deque[PendingRequest] = deque()
        self._waiting = 0  # instances in the interactive queue
        self._arrival = asyncio.Event()

    async def ask(
        self,
        inputs: Sequence[bytes],
        encoder: Encoder,
        keys: Sequence[int | None],
        make_rows: MakeRows | None,
        recorded_by: str,
        pinned: ServedVersion | None = None,
        from_job: bool = False,
    ) -> tuple[ServedVersion, list[Answer]]:
        """Return the answers of one version, once their rows are committed.

        The arguments are those of `PendingRequest`. from_job: answer when no interactive request
        waits, without a deadline. Raises EncoderMoved if the live version, or the store, now uses
        another encoder; Overloaded if the queue is full; DeadlineExceeded if the wait was too long.
        """
        if not from_job and self._waiting and self._waiting + len(inputs) > self._limits.max_waiting:
            raise Overloaded(
                f"{self._waiting} instances wait for an answer already; at most {self._limits.max_waiting} may "
                "(max_waiting); send the request again later"
            )
        result = asyncio.get_running_loop().create_future()
        now = self._clock()
        deadline = math.inf if from_job else now + self._limits.timeout_s
        request = PendingRequest(inputs, encoder, keys, make_rows, recorded_by, pinned, now, deadline, result)
        (self._jobs if from_job else self._interactive).append(request)
        self._waiting += 0 if from_job else len(inputs)
        self._arrival.set()
        return await request.result

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            for served, batch in self._group_by_version(await self._gather()):
                await self._answer(served, batch)

    def _group_by_version(self, requests: list[PendingRequest]) -> list[tuple[ServedVersion, list[PendingRequest]]]:
        live = self._current()
        if all(request.pinned is None for request in requests):
            return [(live, requests)]
        groups: dict[int, tuple[ServedVersion, list[PendingRequest]]] = {}
        for request in requests:
            served = request.pinned or live
            groups.setdefault(id(served), (served, []))[1].append(request)
        return list(groups.values())

    async def _gather(self) -> list[PendingRequest]:
        """Wait for requests. Returns up to a batch of interactive ones, or else one of a job."""
        while True:
            await self._arrival.wait()
            batch = self._take_interactive(self._clock()) or self._take_job()
            if not self._interactive and not self._jobs:
                self._arrival.clear()
            if batch:
                return batch

    def _take_interactive(self, now: float) -> list[PendingRequest]:
        batch, size = list[PendingRequest](), 0
        while self._interactive and size < self._limits.max_batch:
            request = self._interactive.popleft()
            self._waiting -= len(request.inputs)
            if self._is_still_wanted(request, now):
                batch.append(request)
                size += len(request.inputs)
        if batch:
            self._observer.gathered(size, now - batch[0].arrived_at, self._waiting)
        return batch

    def _take_job(self) -> list[PendingRequest]:
        while self._jobs:
            request = self._jobs.popleft()
            if not request.result.done():  # the job was cancelled
                return [request]
        return []

    @staticmethod
    def _is_still_wanted(request: PendingRequest, now: float) -> bool:
        """False if the caller has gone, or the deadline has passed, which is reported to the caller."""
        if request.result.done():
            return False
        if now > request.deadline:
            waited_s = now - request.arrived_at
            request.result.set_exception(
                DeadlineExceeded(f"the request waited {waited_s:.1f} s for the model, longer than request_timeout_ms")
            )
            return False
        return True

    async def _answer(self, served: ServedVersion, batch: list[PendingRequest]) -> None:
        try:
            shares = self._predict(served, batch)
            rows = [
                row
                for request, answers in zip(batch, shares, strict=True)
                if request.make_rows
                for row in request.make_rows(served, answers)
            ]
            if rows:
                await self._write(rows, {request.recorded_by for request in batch if request.make_rows})
        except Exception as error:  # of one request, most likely: it must not fail the others
            await self._answer_alone(batch, error)
            return
        for request, answers in zip(batch, shares, strict=True):
            if not request.result.done():  # the caller may have gone
                request.result.set_result((served, answers))

    def _predict(self, served: ServedVersion, batch: list[PendingRequest]) -> list[list[Answer]]:
        """The answers to each request, from one call of the model."""
        if any(request.encoder is not served.encoder for request in batch):
            raise EncoderMoved("another version is live, with another encoder; try again")
        started = self._clock()
        answers = served.model.predict(
            [features for request in batch for features in request.inputs],
            [key for request in batch for key in request.keys],
        )
        self._observer.computed(self._clock() - started)
        shares, start = [], 0
        for request in batch:
            shares.append(answers[start : start + len(request.inputs)])
            start += len(request.inputs)
        return shares

    async def _answer_alone(self, batch: list[PendingRequest], error: Exception) -> None:
        """After an error: answer each request by itself, or fail the only one."""
        if len(batch) > 1:
            for request in batch:
                await self._answer(request.pinned or self._current(), [request])
        elif not batch[0].result.done():
            batch[0].result.set_exception(error)
