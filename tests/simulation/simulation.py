"""Runs schedules: everything that is decided follows from the seed."""

import asyncio
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import simloom

from online.io import wakeup
from online.settings import ModelSettings, Settings
from online.stream.redis import RedisStream
from tests.simulation.processes import Server, Site
from tests.simulation.scenario import MODEL, Schedule
from tests.simulation.seams import Crash, KeptListener, Selector
from tests.threadless import InlineStore

VECTOR = {"input": "vector", "size": 3, "scale": 4.0}
SECRET = "which all replicas know, of 32 letters or more"


@dataclass
class Simulation:
    """Runs schedules on one store and one Redis. server_class: of the servers; tests pass one with a defect."""

    store: InlineStore
    redis_url: str
    server_class: type[Server] = Server

    def __post_init__(self) -> None:
        model = ModelSettings.model_validate({"name": MODEL, "kind": "classifier", "options": VECTOR})
        self.settings = Settings(models=(model,), stream=self.redis_url, secret=SECRET)
        gc.collect()
        gc.freeze()  # the simulator collects garbage after each schedule

    def run(self, seed: int, **more: Any) -> Any:
        """Run the schedule of a seed; return the result of simloom, which holds the error if there is one."""
        with patched():
            return simloom.run(self.main, seed=seed, raise_on_error=False, **OPTIONS, **more)

    def replay(self, failed: Any) -> Any:
        """Run again what was recorded."""
        with patched():
            return simloom.replay(self.main, tape=failed, raise_on_error=False, **OPTIONS)

    async def main(self, world: Any) -> None:
        """Run one schedule on an empty store and an empty folder."""
        self.store.empty()
        site = Site(self._place, self.store, has_replicas=bool(simloom.draw("replicas", 2)))
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: note_error(site, context))
        CURRENT.selector = Selector(loop)
        CURRENT.opened = site.opened
        with TemporaryDirectory(dir=os.environ["PYTEST_DEBUG_TEMPROOT"], ignore_cleanup_errors=True) as folder:
            self._clear_redis()
            schedule = Schedule(world, site, Path(folder), self.server_class)
            await schedule.run()
            schedule.raise_errors()

    def _place(self, state: Path) -> Settings:
        return self.settings.model_copy(update={"state": state})

    def _clear_redis(self) -> None:
        copy = RedisStream(self.redis_url, MODEL, f"online:{self.store.instance}")
        copy.clear()
        copy.close()


OPTIONS = {"virtual_time": True, "seed_randomness": True, "on_unhandled": "record"}


@dataclass
class Current:
    """The parts of the schedule that runs now."""

    selector: Selector | None = None
    opened: list[Any] | None = None


CURRENT = Current()


def note_error(site: Site, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, Exception):
        site.errors.append(error)
    elif error is not None and not isinstance(error, Crash):
        site.errors.append(RuntimeError(repr(error)))


@contextmanager
def patched() -> Iterator[None]:
    """Let the simulated loop see wake-ups, and close afterwards what killed processes have left open."""
    notify = wakeup.Wakeup.notify

    def notify_and_look(self: wakeup.Wakeup) -> None:
        notify(self)
        if CURRENT.selector is not None:
            CURRENT.selector.look()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wakeup.Wakeup, "notify", notify_and_look)
        patch.setattr(wakeup, "Listener", KeptListener)
        try:
            yield
        finally:
            CURRENT.selector = None
            for each in [*KeptListener.opened, *(CURRENT.opened or [])]:
                with suppress(OSError):
                    each.close()
            KeptListener.opened.clear()
            CURRENT.opened = None
