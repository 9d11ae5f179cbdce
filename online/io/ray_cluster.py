"""Connects to a Ray cluster, and lets its nodes do pieces of a long work: an existing one, or one started here for the run.

    connect(address) -> ray -> RayPool --piece--> an actor on a node: create_worker() once, then one call for each piece
                                       <--result--  a node that dies: its pieces go to others
                                                    a node that could compute other bytes: refused

Every node must have the same release of all packages. Ray pickles only what travels between its own processes.
A cluster started here accepts only clients that have its token.
"""

import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from online.errors import SetupError, Unavailable
from online.io.installation import Installation
from online.io.worker_pools import CreateWorker, WorkerLost
from online.schemas.json_values import JSONObject

P = TypeVar("P")
R = TypeVar("R")

CONNECT_TIMEOUT_S = 10.0  # to reach the head of a cluster
START_TIMEOUT_S = 300.0  # for the first worker of a pool: it waits for a free core, and imports all it needs
RETRIES = 2  # of a piece whose worker died
MAX_FAILED_STARTS = 5  # of workers, in one pool


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to Ray; disconnect at the end of the block. Raises SetupError."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        options = existing_cluster_options(address) if address else local_cluster_options(folder)
        try:
            import ray
        except ImportError:
            raise SetupError("--engine ray needs Ray, which is not installed: pip install 'online[ray]'") from None
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise SetupError(f"Ray cannot be {'reached at ' + address if address else 'started'}: {error}") from None
        try:
            yield ray
        finally:
            ray.shutdown()


def local_cluster_options(folder: str) -> JSONObject:
    """Return options for a cluster on this machine, without usage reports, dashboard or files that remain.

    (Ray queries the link-local address 169.254.169.254 to detect a cloud, and does not report the result.)
    """
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in {"RAY_USAGE_STATS_ENABLED": "0", **token}.items():
        os.environ.setdefault(name, value)
    return {"address": "local", "include_dashboard": False, "_temp_dir": folder}


def existing_cluster_options(address: str) -> JSONObject:
    """Return options for an existing cluster.

    Raises SetupError at once if nothing listens at the address; Ray itself would wait for minutes.
    """
    host, _, port = address.rpartition(":")
    try:
        if port.isdigit():
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise SetupError(f"there is no Ray cluster at {address}: {error}") from None
    return {"address": address}


def count_cores(ray: Any) -> int:
    """Return the number of cores of a cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class PieceActor(Generic[P, R]):
    """A worker on a node of a cluster. refusal: why the node may do no pieces; "" if it may."""

    def __init__(self, create_worker: CreateWorker[P, R], wanted: Installation, same_processor: bool) -> None:
        self.refusal = wanted.find_difference(Installation.of_this_machine(), same_processor)
        self.worker = None if self.refusal else create_worker()

    def start(self) -> str:
        """Return the refusal, once the worker is created."""
        return self.refusal

    def do(self, piece: P) -> R:
        """Return the result of a piece."""
        assert self.worker is not None, "a node that is refused gets no pieces"
        return self.worker(piece)


@dataclass(slots=True, eq=False)
class RayWorker:
    """An actor, and how many pieces are on their way to it."""

    actor: Any
    piece_count: int = 0


@dataclass(slots=True, eq=False)
class SentPiece(Generic[P]):
    """A piece on its way. reference: Ray's, of the result. deaths: of workers that had it."""

    piece: P
    worker: RayWorker
    reference: Any
    deaths: int = 0


class RayPool(Generic[P, R]):
    """Workers on a Ray cluster, one for each core that they may have. ray: the module, connected to the cluster.

    Ray restarts no actor by itself: one that waits for the core of a dead node would never give its pieces back. The pool
    gives them to another worker at once, and starts a new one, which takes part as soon as it runs. So it does not matter
    whether all nodes are there from the beginning.
    """

    def __init__(self, ray: Any, worker_count: int, create_worker: CreateWorker[P, R], same_processor: bool) -> None:
        """same_processor: whether results depend on how a processor rounds."""
        self._ray = ray
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(PieceActor)
        arguments = (ray.put(create_worker), Installation.of_this_machine(), same_processor)
        self._create_actor: Callable[[], Any] = partial(actor.remote, *arguments)
        self._starting = dict[Any, RayWorker]()  # by Ray's reference
        self._running = list[RayWorker]()
        self._failed_starts, self._is_closed = 0, False
        for _ in range(worker_count):
            self._start_one()

    @property
    def worker_count(self) -> int:
        """The number of workers, including those that start."""
        return len(self._running) + len(self._starting)

    def submit(self, piece: P) -> Callable[[], R]:
        """Do a piece in the worker with the fewest; return a function that waits for its result.

        It raises WorkerLost if the piece fails, or if its workers die again and again. Raises SetupError where a node could
        compute other bytes than this machine, or no worker can start, and Unavailable if none starts.
        """
        worker = self._choose_worker()
        return partial(self._wait, SentPiece(piece, worker, worker.actor.do.remote(piece)))

    def _wait(self, sent: SentPiece[P]) -> R:
        errors = self._ray.exceptions
        while True:
            try:
                found: R = self._ray.get(sent.reference)
            except errors.RayTaskError as error:  # of the piece: it fails in this process, too
                sent.worker.piece_count -= 1
                raise WorkerLost(last_line(error)) from None
            except errors.RayError as error:
                sent.deaths += 1
                if sent.deaths > RETRIES or self._is_closed:
                    raise WorkerLost(f"its worker died ({type(error).__name__}), {sent.deaths} times") from None
                self._replace(sent.worker)
                sent.worker = self._choose_worker()
                sent.reference = sent.worker.actor.do.remote(sent.piece)
            else:
                sent.worker.piece_count -= 1
                return found

    def _choose_worker(self) -> RayWorker:
        self._admit_started(0.0)
        if not self._running:
            self._admit_started(START_TIMEOUT_S)
        if not self._running:
            raise Unavailable(
                f"no worker has started on the Ray cluster within {START_TIMEOUT_S:,.0f} s; do its nodes have a free core?"
            )
        worker = min(self._running, key=lambda each: each.piece_count)
        worker.piece_count += 1
        return worker

    def _start_one(self) -> None:
        worker = RayWorker(self._create_actor())
        self._starting[worker.actor.start.remote()] = worker

    def _admit_started(self, timeout_s: float) -> None:
        """Let workers that have started take part. timeout_s: how long to wait until one takes part."""
        while self._starting:
            ready, _ = self._ray.wait([*self._starting], timeout=timeout_s)
            if not ready:
                return
            worker = self._starting.pop(ready[0])
            try:
                refusal = self._ray.get(ready[0])
            except self._ray.exceptions.RayError as error:
                self._note_failed_start(error)
                continue
            if refusal:
                raise SetupError(f"the Ray cluster cannot be used: {refusal}")
            self._running.append(worker)
            timeout_s = 0.0

    def _note_failed_start(self, error: Exception) -> None:
        self._failed_starts += 1
        if self._failed_starts > MAX_FAILED_STARTS:
            raise SetupError(f"workers cannot start on the Ray cluster: {last_line(error)}") from None
        self._start_one()

    def _replace(self, worker: RayWorker) -> None:
        """Start a new worker in place of a dead one, unless that was done for another of its pieces."""
        if worker in self._running:
            self._running.remove(worker)
            self._start_one()

    def close(self) -> None:
        """Stop the workers."""
        self._is_closed = True
        for worker in (*self._running, *self._starting.values()):
            self._ray.kill(worker.actor)


def last_line(error: Exception) -> str:
    """Return the line of Ray's report that names the cause."""
    return [line for line in str(error).splitlines() if line.strip()][-1].strip()
