"""Micro-batches: many single requests become one model call and one write to the journal.

    submit --queue--> [all that wait, up to max_batch] -> one snapshot -> model.predict -> journal -> answers
                                                          (one call for each requested version)

The event loop calls `_answer_waiting` as soon as it has read what has arrived, so a batch is what arrived in one round of the
loop. Batches grow with the load and hold one request when it is low; no request waits for others to come. The queue is bounded,
and a request whose deadline has passed is dropped before the model is called.

Requests of batch prediction jobs have a queue of their own. They are answered when no interactive
request waits, however long that takes, and one at a time, so that their answers do not depend on
other requests.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from online.errors import DeadlineExceeded, EncoderMoved, Overloaded
from online.journal import JournalRow
from online.models import Answer, Encoder
from online.serving.versions import ServedVersion
from online.telemetry import Metrics


class PendingRequest:
    """The encoded instances of one request, waiting for their answers.

    encoder: of the inputs; the version that answers must use the same one. keys: one per instance, from which an exploring
    policy draws. rows: one per instance, recorded with the answers; none records nothing. rows_encoder: the name of the encoder of
    their features. are_other_languages: whether an instance is in another language than the model's
    (`ranker.other_languages`); empty where none is. pinned: the version that must answer; None for the live one.
    arrived_at, deadline: by the batcher's clock.
    """

    __slots__ = (
        "are_other_languages",
        "arrived_at",
        "deadline",
        "encoder",
        "inputs",
        "keys",
        "pinned",
        "rows",
        "rows_encoder",
    )

    def __init__(
        self,
        inputs: Sequence[bytes],
        encoder: Encoder,
        keys: Sequence[int | None],
        pinned: ServedVersion | None,
    ) -> None:
        self.inputs, self.encoder, self.keys, self.pinned = inputs, encoder, keys, pinned
        self.record((), "")
        self.arrived_at, self.deadline = 0.0, math.inf

    def record(self, rows: Sequence[JournalRow], encoder: str, are_other_languages: Sequence[bool] = ()) -> None:
        """Let the answers be recorded in these rows, whose features are those of the encoder of this name."""
        self.rows, self.rows_encoder, self.are_other_languages = rows, encoder, are_other_languages

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answers any more."""
        raise NotImplementedError

    def answer(self, served: ServedVersion, answers: list[Answer]) -> None:
        """Receive the answers, which are recorded."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Receive the reason why there are none."""
        raise NotImplementedError


class AwaitedRequest(PendingRequest):
    """A request whose answers a coroutine awaits."""

    __slots__ = ("result",)

    def __init__(
        self,
        inputs: Sequence[bytes],
        encoder: Encoder,
        keys: Sequence[int | None],
        pinned: ServedVersion | None = None,
    ) -> None:
        super().__init__(inputs, encoder, keys, pinned)
        self.result: asyncio.Future[tuple[ServedVersion, list[Answer]]] = asyncio.get_running_loop().create_future()

    @property
    def is_gone(self) -> bool:
        """Whether the caller has stopped waiting."""
        return self.result.done()

    def answer(self, served: ServedVersion, answers: list[Answer]) -> None:
        """Give the answers to the caller."""
        if not self.result.done():
            self.result.set_result((served, answers))

    def fail(self, error: Exception) -> None:
        """Raise an error at the caller."""
        if not self.result.done():
            self.result.set_exception(error)


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
        """Note the time of a model call."""


class BatchMetrics:
    """Observes micro-batches of one model as Prometheus metrics."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.size, self.waited = metrics.batch_instances.labels(model), metrics.wait_seconds.labels(model)
        self.waiting, self.compute = metrics.waiting_instances.labels(model), metrics.compute_seconds.labels(model)

    def gathered(self, size: int, waited_s: float, still_waiting: int) -> None:
        """Observe a batch that begins."""
        self.size.observe(size)
        self.waited.observe(waited_s)
        self.waiting.set(still_waiting)

    def computed(self, seconds: float) -> None:
        """Observe the time of a model call."""
        self.compute.observe(seconds)


class InteractiveLoad:
    """Counts the interactive requests in progress.

    gone: set while there are none; background threads wait for it before they take the processor.
    """

    def __init__(self) -> None:
        self._count = 0
        self.gone = threading.Event()
        self.gone.set()

    def __enter__(self) -> None:
        self._count += 1
        if self._count == 1:
            self.gone.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self.gone.set()


Answered = list[tuple[PendingRequest, list[Answer]]]


class Batcher:
    """Gathers the requests to one model and answers them in batches. For one event loop."""

    def __init__(
        self,
        current: Callable[[], ServedVersion],
        record: Callable[[ServedVersion, Answered], None],
        limits: Limits,
        observer: Observer,
        clock: Callable[[], float],
        load: InteractiveLoad,
    ) -> None:
        """current: returns the live version. record: writes those answers to the journal that are to be recorded."""
        self._current, self._record, self._limits = current, record, limits
        self._observer, self._clock, self._load = observer, clock, load
        self._interactive: deque[PendingRequest] = deque()
        self._jobs: deque[PendingRequest] = deque()
        self._waiting = 0  # instances in the interactive queue
        self._is_scheduled = False

    def submit(self, request: PendingRequest) -> None:
        """Queue a request; it is answered, or fails, in one of the next rounds of the event loop.

        It fails with EncoderMoved if the version now uses another encoder, and with DeadlineExceeded if the wait was too long.
        Raises Overloaded if the queue is full.
        """
        count = len(request.inputs)
        if self._waiting and self._waiting + count > self._limits.max_waiting:
            raise Overloaded(
                f"{self._waiting} instances wait for an answer already; at most {self._limits.max_waiting} may "
                "(max_waiting); send the request again later"
            )
        if not self._interactive:
            self._load.__enter__()
        request.arrived_at = now = self._clock()
        request.deadline = now + self._limits.timeout_s
        self._interactive.append(request)
        self._waiting += count
        if not self._is_scheduled:
            self._schedule()

    def submit_for_job(self, request: PendingRequest) -> None:
        """Queue a request that is answered when no interactive one waits, without a deadline."""
        self._jobs.append(request)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._answer_waiting)

    def _answer_waiting(self) -> None:
        """Answer a batch of interactive requests, or else one of a job."""
        self._is_scheduled = False
        requests = self._take_interactive() if self._interactive else self._take_job()
        if self._interactive or self._jobs:
            self._schedule()
        for served, batch in self._group_by_version(requests) if requests else ():
            self._answer(served, batch)

    def _take_interactive(self) -> list[PendingRequest]:
        now, batch, size = self._clock(), list[PendingRequest](), 0
        while self._interactive and size < self._limits.max_batch:
            request = self._interactive.popleft()
            self._waiting -= len(request.inputs)
            if self._is_still_wanted(request, now):
                batch.append(request)
                size += len(request.inputs)
        if not self._interactive:
            self._load.__exit__()
        if batch:
            self._observer.gathered(size, now - batch[0].arrived_at, self._waiting)
        return batch

    def _take_job(self) -> list[PendingRequest]:
        while self._jobs:
            request = self._jobs.popleft()
            if not request.is_gone:  # else the job was cancelled
                return [request]
        return []

    @staticmethod
    def _is_still_wanted(request: PendingRequest, now: float) -> bool:
        """Return False if the caller has gone, or the deadline has passed, which is reported to the caller."""
        if request.is_gone:
            return False
        if now > request.deadline:
            waited_s = now - request.arrived_at
            request.fail(
                DeadlineExceeded(f"the request waited {waited_s:.1f} s for the model, longer than request_timeout_ms")
            )
            return False
        return True

    def _group_by_version(self, requests: list[PendingRequest]) -> list[tuple[ServedVersion, list[PendingRequest]]]:
        live = self._current()
        if all(request.pinned is None for request in requests):
            return [(live, requests)]
        groups: dict[int, tuple[ServedVersion, list[PendingRequest]]] = {}
        for request in requests:
            served = request.pinned or live
            groups.setdefault(id(served), (served, []))[1].append(request)
        return list(groups.values())

    def _answer(self, served: ServedVersion, batch: list[PendingRequest]) -> None:
        try:
            answered = self._predict(served, batch)
            self._record(served, answered)
        except Exception as error:  # of one request, most likely: it must not fail the others
            self._answer_alone(batch, error)
            return
        for request, answers in answered:
            request.answer(served, answers)

    def _predict(self, served: ServedVersion, batch: list[PendingRequest]) -> Answered:
        """Return each request with its answers, from one call of the model."""
        if any(request.encoder is not served.encoder for request in batch):
            raise EncoderMoved("another version is live, with another encoder; try again")
        started = self._clock()
        answers = served.predict(
            [features for request in batch for features in request.inputs],
            [key for request in batch for key in request.keys],
        )
        self._observer.computed(self._clock() - started)
        answered, start = Answered(), 0
        for request in batch:
            answered.append((request, answers[start : start + len(request.inputs)]))
            start += len(request.inputs)
        return answered

    def _answer_alone(self, batch: list[PendingRequest], error: Exception) -> None:
        """After an error: answer each request by itself, or fail the only one."""
        if len(batch) == 1:
            batch[0].fail(error)
            return
        for request in batch:
            self._answer(request.pinned or self._current(), [request])
