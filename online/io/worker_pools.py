"""Pools of workers that do pieces of a long work: processes of this machine. (Of a Ray cluster: ray_cluster.py.)

    submit(piece) -> wait; wait() -> the result, or WorkerLost

A worker is a function of a piece. Each process creates its own, once for all pieces. What travels is pickled between
processes that this one has started, and nowhere else.
"""

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Generic, Protocol, TypeVar

from online.errors import Unavailable
from online.io.parent_process import end_with_parent

P = TypeVar("P")
R = TypeVar("R")
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

AHEAD = 2  # pieces on their way for each worker, so that none waits
MAX_POOLS = 5  # that may be lost in one work, before it is given up


class WorkerLost(Exception):
    """The process that did a piece has died, or could not do it; so may have the pieces after it."""


class WorkerPool(Protocol[P_contra, R_co]):
    """Workers that do pieces."""

    @property
    def worker_count(self) -> int:
        """How many pieces are done at the same time."""

    def submit(self, piece: P_contra) -> Callable[[], R_co]:
        """Begin a piece; what is returned waits for its result, and raises WorkerLost if there is none."""

    def close(self) -> None:
        """End the workers, and forget what they have not done."""


def do_in_order(
    pieces: Iterable[P], open_pool: Callable[[], WorkerPool[P, R]], do_here: Callable[[P], R]
) -> Iterator[R]:
    """Yield the result of each piece, in order.

    do_here: does a piece that no worker could do; the pieces after it get new workers. Raises Unavailable if workers are
    lost again and again.
    """
    pool, lost = open_pool(), 0
    waiting = deque[tuple[P, WorkerPool[P, R], Callable[[], R]]]()

    def finish_next() -> R:
        nonlocal pool, lost
        piece, owner, wait = waiting.popleft()
        try:
            return wait()
        except WorkerLost as error:
            if owner is pool:
                lost += 1
                if lost > MAX_POOLS:
                    raise Unavailable(f"the workers were lost {lost} times: {error}") from None
                pool.close()
                pool = open_pool()
            return do_here(piece)

    try:
        for piece in pieces:
            waiting.append((piece, pool, pool.submit(piece)))
            while len(waiting) > AHEAD * pool.worker_count:
                yield finish_next()
        while waiting:
            yield finish_next()
    finally:
        pool.close()


CreateWorker = Callable[[], Callable[[P], R]]  # it is pickled


class ProcessPool(Generic[P, R]):
    """Processes of this machine, forked from one that has imported all they need. modules: what it imports."""

    def __init__(self, worker_count: int, create_worker: CreateWorker[P, R], modules: Sequence[str]) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__, *modules])
        self._worker_count = worker_count
        self._executor = ProcessPoolExecutor(worker_count, context, start_worker, (create_worker,))

    @property
    def worker_count(self) -> int:
        """The number of processes."""
        return self._worker_count

    def submit(self, piece: P) -> Callable[[], R]:
        """Do a piece in a process; return a function that waits for its result. It raises WorkerLost if the process dies."""
        try:
            future = self._executor.submit(do_piece, piece)
        except BrokenProcessPool as error:
            cause = str(error)

            def refuse() -> R:
                raise WorkerLost(cause)

            return refuse

        def wait() -> R:
            try:
                found: R = future.result()
            except BrokenProcessPool as error:
                raise WorkerLost(str(error)) from None
            return found

        return wait

    def close(self) -> None:
        """Stop the processes."""
        self._executor.shutdown(cancel_futures=True)


_worker: Callable[[Any], Any] | None = None  # of this process, if it is one of a ProcessPool


def start_worker(create_worker: CreateWorker[Any, Any]) -> None:
    """Prepare a worker process."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the process that submits pieces, which ends this one
    end_with_parent()
    _worker = create_worker()


def do_piece(piece: Any) -> Any:
    """Do a piece in a worker process."""
    assert _worker is not None, "only workers run this"
    return _worker(piece)
