"""Stand-ins for threads, file descriptors and the power switch, so that one number decides everything.

asyncio.to_thread, futures of a thread pool     the simulator calls the function between two steps of the loop
store.submit --> the thread that writes         --> a step of the loop writes what waits; `result()` writes it at once
loop.add_reader                                 the FIFOs of `Wakeup` are real, and are polled after each wake-up
kill -9                                         the tasks of a process are never continued; what is on the disk stays
"""

import asyncio
import contextvars
import select
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ClassVar, ParamSpec, TypeVar

import simloom
from sqlalchemy import Connection

from online.io.wakeup import Listener
from online.store import Store
from online.store.database.store import StoreWork
from tests.threadless import InlineStore

P = ParamSpec("P")
T = TypeVar("T")

CRASHES_PERCENT = 2  # at each point


class Crash(BaseException):
    """The process is killed here."""


class PowerSwitch:
    """Kills one simulated process: between two steps of the loop, or at a point within one. is_on: whether the process runs."""

    def __init__(self, host: Any) -> None:
        """host: of simloom."""
        self.host, self.has_points = host, True
        self.was_cut = asyncio.Event()

    @property
    def is_on(self) -> bool:
        return not self.host.crashed

    def cut(self) -> None:
        """Kill the process: none of its tasks is continued, and no `finally` runs."""
        self.host.crash()
        self.was_cut.set()

    def start_again(self) -> None:
        self.was_cut.clear()
        self.host.restart()

    def reach(self, point: str) -> None:
        """Kill the process here, sometimes."""
        if self.has_points and self.is_on and simloom.sometimes(point, CRASHES_PERCENT):
            self.cut()
            raise Crash(point)

    def around(self, call: Callable[P, T], what: str) -> Callable[P, T]:
        """Return the call with a point before it and one after it."""

        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            self.reach(f"killed before {what}")
            result = call(*args, **kwargs)
            self.reach(f"killed after {what}")
            return result

        return run


class ForcedFuture(Future[T]):
    """A future that whoever waits for its result makes done: nobody else could while they wait."""

    def __init__(self, finish: Callable[[], object]) -> None:
        super().__init__()
        self._finish = finish

    def result(self, timeout: float | None = None) -> T:
        if not self.done():
            self._finish()
        return super().result(timeout)


class SimulatedExecutor(Executor):
    """An executor whose functions are called in steps of the simulated loop, in order."""

    def __init__(self) -> None:
        self._waiting = deque[tuple[Future[Any], Callable[[], Any]]]()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done = ForcedFuture[T](self._run_waiting)
        self._waiting.append((done, partial(fn, *args, **kwargs)))
        asyncio.get_running_loop().call_soon(self._run_waiting)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._run_waiting()

    def _run_waiting(self) -> None:
        while self._waiting:
            done, call = self._waiting.popleft()
            try:
                done.set_result(call())
            except Exception as error:
                done.set_exception(error)


class ProcessStore(Store):
    """The store as one process has it: its own queue of writes, on connections that all processes of the simulation share."""

    def __init__(self, shared: InlineStore, power: PowerSwitch, has_replicas: bool) -> None:
        """has_replicas: whether the store counts as one that several services share."""
        vars(self).update(vars(shared))
        self.power, self.is_shared = power, has_replicas
        self.after_commit = lambda: None
        self._checkpointer = None  # it is a thread
        self._waiting = deque[StoreWork]()

    def submit(self, run: Callable[[Connection], T], durable: bool = True, is_background: bool = False) -> Future[T]:
        """Let a later step of the loop commit it, together with what else waits then."""
        done = ForcedFuture[T](self._write_waiting)
        self._waiting.append(StoreWork(run, durable, done, is_background))
        asyncio.get_running_loop().call_soon(self._write_waiting)
        return done

    def _write_waiting(self) -> None:
        works, self._waiting = [*self._waiting], deque()
        works = [work for work in works if work.done.set_running_or_notify_cancel()]
        for group in [[work] for work in works] if self.is_shared else [works]:
            if group:
                self.power.reach("killed before a commit")
                self._commit(group)

    def _follow_commit(self) -> None:
        self.power.reach("killed after a commit, before anybody knows of it")
        super()._follow_commit()

    def close(self) -> None:
        """Leave the connections to the other processes."""


class Selector:
    """Calls the readers of file descriptors, as a loop on a real selector does."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._readers = dict[int, tuple[Callable[[], object], contextvars.Context]]()
        self._is_due = set[int]()
        self._poll = select.poll()
        loop.add_reader, loop.remove_reader = self.add_reader, self.remove_reader

    def add_reader(self, file: int, callback: Callable[..., object], *args: object) -> None:
        self._readers[file] = partial(callback, *args), contextvars.copy_context()
        self._poll.register(file, select.POLLIN)

    def remove_reader(self, file: int) -> bool:
        if self._readers.pop(file, None) is None:
            return False
        self._poll.unregister(file)
        return True

    def look(self) -> None:
        """Let the loop call the reader of each descriptor that has something to read."""
        for file, _ in self._poll.poll(0):
            if file in self._readers and file not in self._is_due:
                self._is_due.add(file)
                self.loop.call_soon(self._call, file, context=self._readers[file][1])

    def _call(self, file: int) -> None:
        self._is_due.discard(file)
        if file in self._readers:
            self._readers[file][0]()


class KeptListener(Listener):
    """A listener that is closed at most once: by its process, or at the end of the simulation if that was killed."""

    opened: ClassVar[list["KeptListener"]] = []
    is_open = True

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.opened.append(self)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            super().close()
