"""Several processes behind one port: a first worker, and others that answer predictions beside it.

                       +--> first worker: does what only one process may do; keeps the others alive
one listening socket --|
                       +--> other worker: answers predictions, forwards all else to the first

Workers share files and nothing else. Each follows LIVE and swaps by itself. The others report the
versions they answer with on their standard output, which the first worker reads.
"""

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import orjson

from online.schemas.json_values import JSONObject
from online.schemas.models import LearnerState
from online.serving.live import LiveModel
from online.serving.processes.child import start_child
from online.serving.processes.supervisor import Supervisor
from online.serving.versions import ServedVersion
from online.settings import Settings

STDOUT = 1
REPORT_EVERY_S = 0.1  # at most: a learner may publish a hundred times a second


@dataclass(slots=True)
class HttpWorker:
    """One of the other workers, as the first worker knows it.

    answers: {model: {"version", "learned_until"}} from its last report. up: it has reported once.
    """

    number: int
    supervisor: Supervisor
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    up: bool = False

    def receive(self, report: JSONObject) -> None:
        """Take a report of the worker."""
        self.answers = report["answers"]
        self.up = True

    def describe(self) -> JSONObject:
        """Return the state of the worker and its versions."""
        state = self.supervisor.state.model_dump(exclude_none=True)
        return {"worker": self.number, **state, "answers": self.answers}


class Workers:
    """The other workers, kept alive by the first; empty if there is only one."""

    def __init__(self, settings: Settings, on_end: Callable[[int], None]) -> None:
        """on_end: called with the process id of each worker that has ended."""
        self.settings, self.on_end = settings, on_end
        self.others: list[HttpWorker] = []

    async def start(self, listener: int, port: int) -> None:
        """Start the others.

        listener: file descriptor of the socket from which all workers accept. port: of the first
        worker, for forwarded requests.
        """
        for number in range(1, self.settings.workers):
            self.others.append(self._build_worker(number, listener, port))
        for worker in self.others:
            await worker.supervisor.start()

    @property
    def all_up(self) -> bool:
        """Whether each worker has been ready once."""
        return all(worker.up for worker in self.others)

    def have_learned(self, offsets: Mapping[str, int]) -> bool:
        """Return whether each worker answers with versions that have learned these offsets, by model."""
        return all(
            worker.answers.get(model, {}).get("learned_until", 0) >= offset
            for worker in self.others
            for model, offset in offsets.items()
            if offset
        )

    def have_versions(self, models: Collection[str]) -> bool:
        """Return whether each worker is up and answers with a version of each of these models."""
        return self.all_up and all(
            worker.answers.get(model, {}).get("version", 0) for worker in self.others for model in models
        )

    async def stop(self) -> None:
        """Let each worker finish its open requests."""
        await asyncio.gather(*(worker.supervisor.stop() for worker in self.others))

    def learned_offsets(self) -> Iterator[tuple[int, str, int]]:
        """(worker, model, learned until) of each of the other workers."""
        for worker in self.others:
            for model, answers in worker.answers.items():
                yield worker.number, model, answers["learned_until"]

    def _build_worker(self, number: int, listener: int, port: int) -> HttpWorker:
        command = ("work", "--number", str(number), "--listener", str(listener), "--first", str(port))
        start_worker = partial(start_child, self.settings, *command, stdout=PIPE, pass_fds=(listener,))

        def on_change(state: LearnerState) -> None:
            if state.state != "running":
                worker.answers = {}
                if supervisor.process is not None:
                    self.on_end(supervisor.process.pid)

        supervisor = Supervisor(f"worker {number}", start_worker, self.settings.restart_max_s, on_change)
        worker = HttpWorker(number, supervisor)
        supervisor.on_message = worker.receive
        return worker


async def report_versions(live: Mapping[str, LiveModel]) -> None:
    """Print what this worker answers with whenever that changes, until cancelled.

    Never blocks: if the first worker does not read at the moment, the report is repeated later.
    """
    os.set_blocking(STDOUT, False)
    reported = b""
    while True:
        answers = {name: describe_version(model.current) for name, model in live.items()}
        line = orjson.dumps({"answers": answers}, option=orjson.OPT_APPEND_NEWLINE)
        if line != reported:
            with suppress(BlockingIOError):
                os.write(STDOUT, line)
                reported = line
        await asyncio.sleep(REPORT_EVERY_S)


def describe_version(served: ServedVersion) -> dict[str, int]:
    """Return the version that a worker answers with."""
    return {"version": served.version, "learned_until": served.learned_until}
