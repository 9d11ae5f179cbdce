"""Engines that do the pieces of a command's work: in this process, in others of this machine, or on a Ray cluster.

--engine, --address, --processes --open_engine--> engine --open_pool(create_worker)--> WorkerPool
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from online.errors import SetupError
from online.io.ray_cluster import RayPool, connect, count_cores
from online.io.worker_pools import CreateWorker, ProcessPool, WorkerPool

P = TypeVar("P")
R = TypeVar("R")

EngineName = Literal["here", "ray"]


class WorkEngine(Protocol):
    """An opener of pools of workers."""

    def open_pool(
        self, create_worker: CreateWorker[P, R], modules: Sequence[str], same_processor: bool
    ) -> WorkerPool[P, R]:
        """Return a pool whose workers are what `create_worker` returns in each process.

        modules: what they import. same_processor: whether results depend on how a processor rounds.
        """


@dataclass(frozen=True, slots=True)
class ProcessEngine:
    """Processes of this machine."""

    processes: int

    def open_pool(
        self, create_worker: CreateWorker[P, R], modules: Sequence[str], same_processor: bool
    ) -> WorkerPool[P, R]:
        """Return a pool of processes."""
        return ProcessPool(self.processes, create_worker, modules)


@dataclass(frozen=True, slots=True)
class RayEngine:
    """A Ray cluster. ray: the module, connected to it. processes: how many; None: one for each core that there is then."""

    ray: Any
    processes: int | None = None

    def open_pool(
        self, create_worker: CreateWorker[P, R], modules: Sequence[str], same_processor: bool
    ) -> WorkerPool[P, R]:
        """Return a pool of actors."""
        return RayPool(self.ray, self.processes or count_cores(self.ray), create_worker, same_processor)


def check_engine(name: EngineName, address: str) -> None:
    """Raise SetupError for an address without an engine that has one."""
    if name == "here" and address:
        raise SetupError("--address needs --engine ray")


@contextmanager
def open_engine(name: EngineName, address: str, processes: int | None) -> Iterator[WorkEngine | None]:
    """Yield an engine; None if this process does all. address: of a Ray cluster; "" starts one for the block.

    processes: how many; None: one for each core. Raises SetupError.
    """
    if name == "ray":
        with connect(address) as ray:
            yield RayEngine(ray, processes)
        return
    count = processes or count_own_cores()
    yield ProcessEngine(count) if count > 1 else None


def count_own_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))
