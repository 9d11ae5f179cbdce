"""The worker processes of one machine: forked from a process that has imported all they need, and started again if they die.

    learner --starts--> fork server: modules imported, no thread   --forks, 10 ms each--> worker, joins the board
                              ^                                                              |
                              +---- a worker has died: another one, after a pause -----------+

A worker that imported everything itself would need a second of a core, which a learner that waits for nobody
uses better. Workers have a lower priority than the learner: it reads what no worker can read for it.
"""

import logging
import multiprocessing
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from online.io.backoff import Backoff
from online.plugins.workers.board import Address
from online.plugins.workers.joining import run_worker
from online.plugins.workers.settings import WorkerSettings
from online.settings import Settings
from online.telemetry import log_event

log = logging.getLogger("online.learner")

FIRST_PAUSE_S = 0.2  # before a worker that died is replaced; it doubles with each death in its place
HEALTHY_S = 10.0  # a worker that lived as long is replaced after the shortest pause
STOP_S = 5.0  # for a worker to end
PRELOADED = ["online.plugins.workers.joining", "online.state.workspace", "online.models.classifier", "torch"]

Clock = Callable[[], float]


@dataclass(slots=True)
class WorkerSlot:
    """One of the workers. due_at: when the next one is started in its place, while there is none."""

    backoff: Backoff
    process: BaseProcess | None = None
    started_at: float = 0.0
    due_at: float = 0.0


class LocalWorkers:
    """As many worker processes as `learn_workers`, for the length of a block."""

    def __init__(self, settings: Settings, address: Address, clock: Clock = time.monotonic) -> None:
        """settings: with a workers_key."""
        self.settings, self.clock = settings, clock
        self._where = address if isinstance(address, str) else f"{address[0]}:{address[1]}"
        self._context = multiprocessing.get_context("forkserver")
        backoffs = (
            Backoff(FIRST_PAUSE_S, settings.restart_max_s, HEALTHY_S)
            for _ in range(settings.part(WorkerSettings).learn_workers)
        )
        self._places = [WorkerSlot(backoff) for backoff in backoffs]
        self._stop_reader, self._stop_writer = multiprocessing.Pipe(duplex=False)
        self._watcher = threading.Thread(target=self._watch, name="local workers", daemon=True)

    def __enter__(self) -> Self:
        self._context.set_forkserver_preload(PRELOADED)
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_writer.send_bytes(b"stop")
        self._watcher.join()
        self._stop_writer.close()
        self._stop_reader.close()

    @property
    def pids(self) -> list[int]:
        """Of the workers that have been started and have not been found dead."""
        processes = [place.process for place in self._places]
        return [process.pid for process in processes if process is not None and process.pid is not None]

    def _watch(self) -> None:
        """Start workers that are due and wait for a death, until the block ends."""
        while True:
            for place in self._places:
                if place.process is None and place.due_at <= self.clock():
                    place.process, place.started_at = self._start(), self.clock()
            sentinels = [place.process.sentinel for place in self._places if place.process is not None]
            if self._stop_reader in wait([self._stop_reader, *sentinels], self._find_wait_s()):
                break
            for place in self._places:
                if place.process is not None and not place.process.is_alive():
                    self._note_death(place, place.process)
        end_all([place.process for place in self._places if place.process is not None])

    def _find_wait_s(self) -> float | None:
        due = [place.due_at for place in self._places if place.process is None]
        return max(0.0, min(due) - self.clock()) if due else None

    def _start(self) -> BaseProcess:
        arguments = (self.settings.dump_with_secrets(), self._where)
        process = self._context.Process(target=run_worker, args=arguments, name="online worker", daemon=True)
        process.start()
        return process

    def _note_death(self, place: WorkerSlot, process: BaseProcess) -> None:
        pause_s = place.backoff.fail(self.clock() - place.started_at)
        place.process, place.due_at = None, self.clock() + pause_s
        log_event(log, "worker died", logging.WARNING, status=process.exitcode, next_start_s=round(pause_s, 1))
        process.close()


def end_all(processes: list[BaseProcess]) -> None:
    """End processes; those that do not listen are killed."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(STOP_S)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()
