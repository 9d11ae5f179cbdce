"""Hands ranges of logs to worker processes, and collects the shares that they return.

    learners --post ranges--> ShareBoard --one range at a time--> each worker, over a connection
             <----take-------            <--------share----------

A worker may join or leave at any time. A share is waited for twice as long as shares usually take: then the range is
learned without it, and it is thrown away when it comes. So no worker can stop a learner, and none
can change what it learns (see `shares`).

Connections are those of `multiprocessing.connection`, which ask for a key; what they carry is JSON and safetensors.
"""

import json
import logging
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from statistics import median

from online.learning.shares import EMPTY, SumShare
from online.models import Options
from online.plugins.workers.equipment import DeviceCapacity
from online.plugins.workers.tally import SumTally
from online.telemetry import log_event

log = logging.getLogger("online.learner")

FIRST_PATIENCE_S = 5.0  # for a share, while no worker has returned one
PATIENCE = 2.0  # multiples of the usual time of a share
LEAST_PATIENCE_S = 0.2
TIMES_KEPT = 9
INTRODUCTION_S = 10  # for a worker to prove that it knows the key
MAX_CONNECTIONS = 512
READY, OVER = b"ready", b"over"  # what a worker says that learns a tower

Address = str | tuple[str, int]  # a path of a socket, or a host and a port


@dataclass(frozen=True, slots=True)
class ReadingState:
    """The state in which a model reads examples at present. number: changes with it. state: packed serving parts."""

    model: str
    kind: str
    options: Options
    number: int
    state: bytes

    def header(self) -> bytes:
        """Return what a worker needs to create the model, as JSON."""
        return json.dumps({"model": self.model, "kind": self.kind, "options": dict(self.options)}).encode()


@dataclass(slots=True)
class RangeTask:
    """A range of a model's log. started_at: when a worker got it; None: it waits."""

    reading: ReadingState
    after: int
    until: int
    started_at: float | None = None
    share: SumShare | None = None


class TeamCall:
    """A worker that was called to learn a tower with the learner.

    equipment: what it said about itself; None until it is ready. is_over: whether it is free again, or gone.
    """

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._begun = threading.Event()
        self._sending = threading.Lock()
        self.equipment: DeviceCapacity | None = None
        self.is_over = False

    @property
    def is_ready(self) -> bool:
        """Whether the worker has described its device and waits for the tower."""
        return self.equipment is not None

    @property
    def connection(self) -> Connection:
        """The connection to the worker; waits until the worker has taken the call."""
        self._begun.wait()
        assert self._connection is not None
        return self._connection

    def send(self, data: bytes) -> None:
        """Raise OSError if the worker is gone."""
        with self._sending:
            if self.is_over:
                raise OSError("the worker is gone")
            self.connection.send_bytes(data)

    def end(self) -> None:
        """Ask the worker to leave."""
        with suppress(OSError):
            self.send(json.dumps({"end": True}).encode())

    def follow(self, connection: Connection) -> None:
        """Read what the worker says until it is free again. Raises OSError or EOFError if it is gone."""
        self._connection = connection
        self._begun.set()
        try:
            while (said := connection.recv_bytes()).startswith(READY):
                self.equipment = DeviceCapacity.unpack(said.removeprefix(READY))
            if said != OVER:
                raise ValueError("a worker that learns a tower says that it is ready or free, and nothing else")
        finally:
            with self._sending:
                self.is_over = True


class ShareBoard:
    """The learners' side. Used by the threads of all learners and of all connections."""

    def __init__(self, address: Address, key: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        """Listen. Raises OSError if the address cannot be listened on."""
        self._listener, self._key = Listener(address, backlog=64), key
        self.address: Address = self._listener.address  # where workers connect to; a port of 0 was replaced
        self._clock, self._changed = clock, threading.Condition()
        self._tasks: dict[tuple[str, int], RangeTask] = {}
        self._calls: list[TeamCall] = []  # for which a worker is idle
        self._idle_count = 0
        self._times_s: list[float] = []  # of the newest shares
        self._numbers = set[int]()  # of the workers that are there
        self.tally = SumTally()
        self._connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._is_closed = False
        self._acceptor = threading.Thread(target=self._accept, name="workers", daemon=True)
        self._acceptor.start()

    @property
    def worker_count(self) -> int:
        """The number of connected workers."""
        with self._changed:
            return len(self._numbers)

    @property
    def idle_count(self) -> int:
        """How many workers wait, and are not called."""
        with self._changed:
            return self._idle_count - len(self._calls)

    # for learners

    def post(self, reading: ReadingState, after: int, until: int) -> None:
        """Ask for the share of a range, once."""
        with self._changed:
            if (reading.model, after) not in self._tasks:
                self._tasks[reading.model, after] = RangeTask(reading, after, until)
                self._changed.notify_all()

    def take(self, model: str, after: int) -> SumShare:
        """Return the share of a range that begins at an offset; an empty one if it does not come in time."""
        with self._changed:
            while (task := self._tasks.get((model, after))) is not None and task.share is None:
                left = self._find_patience(task) - self._clock()
                if left <= 0 or self._is_closed:
                    break
                self._changed.wait(left)
            task = self._tasks.pop((model, after), None)
            return task.share if task is not None and task.share is not None else EMPTY

    def _find_patience(self, task: RangeTask) -> float:
        """Return the instant until which a share is waited for; of a range that no worker has, it is past."""
        if task.started_at is None:
            return -math.inf
        usual_s = median(self._times_s) if self._times_s else FIRST_PATIENCE_S / PATIENCE
        return task.started_at + max(PATIENCE * usual_s, LEAST_PATIENCE_S)

    def withdraw(self, model: str) -> None:
        """Forget every range of a model: its examples are read in another way from now on, or the log was learned."""
        with self._changed:
            self._tasks = {key: task for key, task in self._tasks.items() if key[0] != model}

    def call(self, count: int) -> list[TeamCall]:
        """Call up to `count` workers that are idle now."""
        with self._changed:
            free = self._idle_count - len(self._calls)
            calls = [TeamCall() for _ in range(min(count, free))]
            self._calls += calls
            self._changed.notify_all()
            return calls

    def close(self) -> None:
        """Let all workers go: each of them once it has answered."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
        with suppress(OSError, EOFError, AuthenticationError):
            Client(self.address).close()  # wakes the thread that accepts connections
        self._acceptor.join()
        self._listener.close()

    # connections

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()
            if self._is_closed:
                connection.close()
                return
            if self._connections.acquire(blocking=False):
                threading.Thread(target=self._welcome, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _welcome(self, connection: Connection) -> None:
        """Let in who knows the key, within a time: others may be on the network."""
        try:
            with connection:
                is_known = prove_key(connection, self._key)
                if is_known:
                    self._serve(connection)
                else:
                    log_event(log, "worker refused", logging.WARNING, reason="it does not know the key")
        finally:
            self._connections.release()

    def _serve(self, connection: Connection) -> None:
        """Give one worker ranges for as long as it is there."""
        number = self._admit()
        known: dict[str, int] = {}
        task: RangeTask | None = None
        reason = "the learner ends"
        try:
            while (next := self._next_task()) is not None:
                if isinstance(next, TeamCall):
                    next.follow(connection)
                    known.clear()
                    continue
                task = next
                self._send(connection, task, known)
                self._finish(task, replace(SumShare.unpack(connection.recv_bytes()), worker=number))
        except (OSError, EOFError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        finally:
            with self._changed:
                if task is not None and task.share is None:
                    task.started_at = None  # for another worker
                    self._changed.notify_all()
            self._dismiss(number, reason)

    def _admit(self) -> int:
        """Give a new worker the lowest number that is free, so that one that replaces another is counted as it was."""
        with self._changed:
            number = next(each for each in count(1) if each not in self._numbers)
            self._numbers.add(number)
            workers = len(self._numbers)
        log_event(log, "worker joined", worker=number, workers=workers)
        return number

    def _dismiss(self, number: int, reason: str) -> None:
        with self._changed:
            self._numbers.remove(number)
            workers = len(self._numbers)
        log_event(log, "worker left", worker=number, workers=workers, reason=reason)

    def _send(self, connection: Connection, task: RangeTask, known: dict[str, int]) -> None:
        """Send a range, after the reading of its model unless the worker knows it."""
        reading = task.reading
        if known.get(reading.model) != reading.number:
            connection.send_bytes(reading.header())
            connection.send_bytes(reading.state)
            known[reading.model] = reading.number
        connection.send_bytes(json.dumps({"model": reading.model, "after": task.after, "until": task.until}).encode())

    def _next_task(self) -> RangeTask | TeamCall | None:
        """Wait for a call, or a range that no worker has; None once the board is closed."""
        with self._changed:
            while not self._is_closed:
                if self._calls:
                    return self._calls.pop()
                waiting = (task for task in self._tasks.values() if task.started_at is None)
                task = next(waiting, None)
                if task is not None:
                    task.started_at = self._clock()
                    return task
                self._idle_count += 1
                self._changed.wait()
                self._idle_count -= 1
            return None

    def _finish(self, task: RangeTask, share: SumShare) -> None:
        with self._changed:
            task.share = share
            if task.started_at is not None:
                self._times_s = [*self._times_s, self._clock() - task.started_at][-TIMES_KEPT:]
            self._changed.notify_all()


def prove_key(connection: Connection, key: bytes) -> bool:
    """Return whether the other side knows the key. Each side proves it to the other; the key itself is not sent."""
    try:
        limit_waiting(connection, INTRODUCTION_S)
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
        limit_waiting(connection, 0)
    except (AuthenticationError, AssertionError, OSError, EOFError):  # an assertion: it sent no challenge
        return False
    return True


def limit_waiting(connection: Connection, seconds: int) -> None:
    """Let a read from a connection fail with OSError after a time; 0: never."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
