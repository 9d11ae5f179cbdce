"""Several processes behind one port: the first worker, and others that answer predictions beside it.

                       +--> the first: whatever there must be one of; keeps the learner and the others alive
one listening socket --|
                       +--> another: answers predictions from a snapshot of its own; hands all else to the first

They share files and nothing else. Each follows LIVE and swaps by itself; the others say on their standard output, which the
first reads, what they answer with.
"""

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from online.schemas import LearnerState
from online.serving.child import start_child
from online.serving.live import LiveModel, Served
from online.serving.supervisor import Supervisor
from online.settings import Settings

STDOUT = 1
SAID_EVERY_S = 0.1  # at most: a learner may publish a hundred times a second


@dataclass(slots=True)
class Worker:
    """One of the others, as the first knows it. answers: {model: {"version", "learned_until"}} as it last said."""

    number: int
    supervisor: Supervisor
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    up: bool = False

    def hear(self, told: dict[str, Any]) -> None:
        self.answers = told["answers"]
        self.up = True

    def shown(self) -> dict[str, Any]:
        state = self.supervisor.state.model_dump(exclude_none=True)
        return {"worker": self.number, **state, "answers": self.answers}


class Workers:
    """The others, kept alive by the first. Nobody where there is but one."""

    def __init__(self, settings: Settings, on_end: Callable[[int], None]) -> None:
        """on_end: told the process id of each that is gone."""
        self.settings, self.on_end = settings, on_end
        self.others: list[Worker] = []

    async def start(self, listener: int, port: int) -> None:
        """listener: file descriptor of the socket that all accept from. port: to which they hand what is the first's."""
        for number in range(1, self.settings.workers):
            self.others.append(self._worker(number, listener, port))
        for worker in self.others:
            await worker.supervisor.start()

    @property
    def all_up(self) -> bool:
        """Whether each has been ready once."""
        return all(worker.up for worker in self.others)

    async def stop(self) -> None:
        """Let each finish what it is answering."""
        await asyncio.gather(*(worker.supervisor.stop() for worker in self.others))

    def standing(self) -> Iterator[tuple[int, str, int]]:
        """(worker, model, learned until) of each of the others."""
        for worker in self.others:
            for model, answers in worker.answers.items():
                yield worker.number, model, answers["learned_until"]

    def _worker(self, number: int, listener: int, port: int) -> Worker:
        command = ("work", "--number", str(number), "--listener", str(listener), "--first", str(port))
        begin = partial(start_child, self.settings, *command, stdout=PIPE, pass_fds=(listener,))
        supervisor = Supervisor(f"worker {number}", begin, self.settings.restart_max_s, lambda state: changed(state))
        worker = Worker(number, supervisor)
        supervisor.hear = worker.hear

        def changed(state: LearnerState) -> None:
            if state.state != "running":
                worker.answers = {}
                if supervisor.process is not None:
                    self.on_end(supervisor.process.pid)

        return worker


async def say(live: Mapping[str, LiveModel]) -> None:
    """Print what this worker answers with, whenever that changes, until cancelled. live: of each model, by name.

    A first worker that does not read just now must not keep this one from answering.
    """
    os.set_blocking(STDOUT, False)
    said = b""
    while True:
        answers = {name: standing_of(model.current) for name, model in live.items()}
        line = orjson.dumps({"answers": answers}, option=orjson.OPT_APPEND_NEWLINE)
        if line != said:
            with suppress(BlockingIOError):
                os.write(STDOUT, line)
                said = line
        await asyncio.sleep(SAID_EVERY_S)


def standing_of(served: Served) -> dict[str, int]:
    return {"version": served.version, "learned_until": served.learned_until}
