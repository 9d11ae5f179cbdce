"""Pools that sum the pieces of a bulk load: processes of this machine, or actors of a Ray cluster.

    submit(piece) -> wait; wait() -> the sums, or WorkerLost

Each worker holds the model as it reads examples, once for all pieces. What travels is pickled between processes that
this one has started, and nowhere else.
"""

import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from online.io.parent_process import end_with_parent
from online.learning.piece_sums import PieceSummer, PieceSums, ReadPiece
from online.learning.shares import pack_state
from online.models import Options, State, spec_of
from online.models.lazy_torch import use_one_thread

P_contra = TypeVar("P_contra", contravariant=True)


class WorkerLost(Exception):
    """The process that summed a piece has died; so may have the pieces after it."""


class SumPool(Protocol[P_contra]):
    """Workers that sum pieces."""

    @property
    def worker_count(self) -> int:
        """How many pieces are summed at the same time."""

    def submit(self, piece: P_contra) -> Callable[[], PieceSums]:
        """Begin to sum a piece; what is returned waits for the sums. Raises nothing, waiting raises WorkerLost."""

    def close(self) -> None:
        """End the workers, and forget what they have not summed."""


class ProcessPool:
    """Processes of this machine, forked from one that has imported all they need."""

    def __init__(self, worker_count: int, kind: str, options: Options, state: State, read: ReadPiece[Any]) -> None:
        use_one_thread()
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__, spec_of(kind).path.partition(":")[0], "torch"])
        arguments = (kind, dict(options), pack_state(state), read)
        self._worker_count = worker_count
        self._executor = ProcessPoolExecutor(worker_count, context, start_summing, arguments)

    @property
    def worker_count(self) -> int:
        """The number of processes."""
        return self._worker_count

    def submit(self, piece: object) -> Callable[[], PieceSums]:
        """Sum a piece in a process; return a function that waits for the sums. It raises WorkerLost if the process dies."""
        try:
            future = self._executor.submit(sum_piece, piece)
        except BrokenProcessPool as error:
            cause = str(error)

            def refuse() -> PieceSums:
                raise WorkerLost(cause)

            return refuse

        def wait() -> PieceSums:
            try:
                return future.result()
            except BrokenProcessPool as error:
                raise WorkerLost(str(error)) from None

        return wait

    def close(self) -> None:
        """Stop the processes."""
        self._executor.shutdown(cancel_futures=True)


class RayPool:
    """Actors on a Ray cluster, one for each core that they may have. ray: the module, connected to the cluster."""

    def __init__(
        self, ray: Any, worker_count: int, kind: str, options: Options, state: State, read: ReadPiece[Any]
    ) -> None:
        self._ray, self._next = ray, 0
        packed = pack_state(state)
        actor = ray.remote(num_cpus=1, max_restarts=2, max_task_retries=2)(PieceSummer)
        self._actors = [actor.remote(kind, dict(options), packed, read) for _ in range(worker_count)]

    @property
    def worker_count(self) -> int:
        """The number of actors."""
        return len(self._actors)

    def submit(self, piece: Any) -> Callable[[], PieceSums]:
        """Sum a piece in the next actor; return a function that waits for the sums. It raises WorkerLost if the actor dies."""
        actor = self._actors[self._next % len(self._actors)]
        self._next += 1
        reference = actor.sum_up.remote(piece)

        def wait() -> PieceSums:
            try:
                found: PieceSums = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:  # an error of the piece, which is raised here, too
                raise WorkerLost(str(error).splitlines()[-1]) from None
            except self._ray.exceptions.RayError as error:
                raise WorkerLost(type(error).__name__) from None
            return found

        return wait

    def close(self) -> None:
        """Stop the actors."""
        for actor in self._actors:
            self._ray.kill(actor)


_summer: PieceSummer[Any] | None = None  # of this process, if it is a worker of a ProcessPool


def start_summing(kind: str, options: Options, state: bytes, read: ReadPiece[Any]) -> None:
    """Prepare a worker process."""
    global _summer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the process that merges, which ends this one
    end_with_parent()
    _summer = PieceSummer(kind, options, state, read)


def sum_piece(piece: object) -> PieceSums:
    """Sum a piece in a worker process."""
    assert _summer is not None, "only workers run this"
    return _summer.sum_up(piece)
