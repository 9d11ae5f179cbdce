"""A model's report, made beside the service by a process of low priority, one at a time.

asked for --there is one, and it is fresh--> the page
          --otherwise--> `online log report` --progress--> <state>/reports/<model>/<offset>.html, the one before is dropped
"""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from online.errors import NotFound, Unavailable
from online.observability import fact
from online.schemas import Progress, ReportState
from online.serving.child import followed
from online.settings import Settings
from online.workspace import Workspace

log = logging.getLogger("online.reports")

FRESH_S = 60.0  # a log that grows all the time is told of at most so often


@dataclass(slots=True)
class Making:
    """How far it is."""

    what: str = "waiting for its turn"
    percent: int = 0

    def hear(self, told: dict[str, Any]) -> None:
        """A line that its process printed."""
        self.what, self.percent = told.get("what", self.what), told.get("percent", self.percent)

    def shown(self) -> Progress:
        return Progress(what=self.what, percent=self.percent)


class Reports:
    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self.settings, self.workspace = settings, workspace
        self.making: dict[str, Making] = {}
        self.failed: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    def page(self, model: str, until: int | None = None) -> Path | None:
        """The page that tells up to `until`, or furthest. Raises NotFound where there is no such page."""
        pages = {int(path.stem): path for path in self.workspace.reports(model).glob("[0-9]*.html")}
        if until is not None and until not in pages:
            raise NotFound(f"there is no report of {model} up to event {until}; leave out `until` for the newest")
        return pages[until if until is not None else max(pages)] if pages else None

    def fresh(self, page: Path, head: int) -> bool:
        with suppress(FileNotFoundError):  # another server dropped it meanwhile
            return int(page.stem) == head or time.time() - page.stat().st_mtime < FRESH_S
        return False

    def state(self, model: str, head: int) -> ReportState:
        """What is told of it beside the page itself; it reads the folder."""
        making = self.making.get(model)  # before the folder: what is made no longer lies in its place by then
        until, made_at = self._newest(model) or (None, None)
        shown = making.shown() if making is not None else None
        return ReportState(until=until, made_at=made_at, head=head, making=shown, failed=self.failed.get(model))

    def _newest(self, model: str) -> tuple[int, str] | None:
        while (page := self.page(model)) is not None:
            with suppress(FileNotFoundError):  # dropped since the folder was read, for a newer one: read it again
                return int(page.stem), datetime.fromtimestamp(page.stat().st_mtime, UTC).isoformat()
        return None

    def make(self, model: str) -> Making:
        """See to it that one is being made. Raises Unavailable, once, with the reason why the last attempt failed."""
        if model in self.failed:
            raise Unavailable(
                f"the report of {model} could not be made: {self.failed.pop(model)}; ask again to try again"
            )
        if model not in self.making:
            self.making[model] = Making()
            task = asyncio.create_task(self._make(model))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self.making[model]

    def make_anew(self, model: str) -> None:
        """Whatever there is, and whatever became of the last attempt."""
        self.failed.pop(model, None)
        self.make(model)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _make(self, model: str) -> None:
        try:
            async with self._turn:
                await self._made(model)
        except OSError as error:
            self.failed[model] = str(error)
        finally:
            del self.making[model]

    async def _made(self, model: str) -> None:
        folder = self.workspace.reports(model)
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / ".next.html"
        command = ("log", "report", "--supervised", "--model", model, "--output", str(aside))
        until: int | None = None

        def hear(told: dict[str, Any]) -> None:
            nonlocal until
            until = told.get("until", until)
            self.making[model].hear(told)

        reason = await followed(self.settings, *command, hear=hear)
        if reason is not None or until is None:
            self.failed[model] = reason or "its process did not say up to which event it tells"
            fact(log, "report failed", logging.WARNING, model=model, reason=self.failed[model])
            return
        aside.replace(folder / f"{until}.html")
        for page in folder.glob("[0-9]*.html"):
            if page.stem != str(until):
                page.unlink(missing_ok=True)
