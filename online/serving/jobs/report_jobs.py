"""Reports of models: written by a child process of low priority, one at a time.

request --a fresh report exists--> its page
        --otherwise--> `online log report` --progress--> <state>/reports/<model>/<offset>.html
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
from online.schemas.reports import Progress, ReportState
from online.serving.processes.child import run_child
from online.settings import Settings
from online.telemetry import log_event
from online.workspace import Workspace

log = logging.getLogger("online.reports")

FRESH_S = 60.0  # a report of a growing log is written again after this time at the earliest


@dataclass(slots=True)
class ReportProgress:
    """How far the making of a report, or a replay, is."""

    what: str = "waiting for its turn"
    percent: int = 0

    def receive(self, message: dict[str, Any]) -> None:
        """Take a message that the process has printed."""
        self.what, self.percent = message.get("what", self.what), message.get("percent", self.percent)

    def describe(self) -> Progress:
        return Progress(what=self.what, percent=self.percent)


class ReportJobs:
    """Makes reports and finds their pages. failed: why the last attempt failed, by model."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self.settings, self.workspace = settings, workspace
        self.making: dict[str, ReportProgress] = {}
        self.failed: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    def page(self, model: str, until: int | None = None) -> Path | None:
        """The page of the report up to offset `until`, or of the newest; None if there is none yet.

        Raises NotFound for an `until` that has no report.
        """
        pages = {int(path.stem): path for path in self.workspace.reports(model).glob("[0-9]*.html")}
        if until is not None and until not in pages:
            raise NotFound(f"there is no report of {model} up to event {until}; leave out `until` for the newest")
        return pages[until if until is not None else max(pages)] if pages else None

    def is_fresh(self, page: Path, head: int) -> bool:
        with suppress(FileNotFoundError):  # another server has just deleted it
            return int(page.stem) == head or time.time() - page.stat().st_mtime < FRESH_S
        return False

    def state(self, model: str, head: int) -> ReportState:
        """The newest report and the progress of the next one. Reads the folder."""
        making = self.making.get(model)  # read before the folder: a report that is done by now is found there
        until, made_at = self._newest(model) or (None, None)
        progress = making.describe() if making is not None else None
        return ReportState(until=until, made_at=made_at, head=head, making=progress, failed=self.failed.get(model))

    def _newest(self, model: str) -> tuple[int, str] | None:
        while (page := self.page(model)) is not None:
            with suppress(FileNotFoundError):  # replaced by a newer one since the folder was read: read it again
                return int(page.stem), datetime.fromtimestamp(page.stat().st_mtime, UTC).isoformat()
        return None

    def make(self, model: str) -> ReportProgress:
        """Start writing a report, unless one is in progress.

        Raises Unavailable, once, with the reason if the last attempt failed.
        """
        if model in self.failed:
            raise Unavailable(
                f"the report of {model} could not be written: {self.failed.pop(model)}; send the request again to try again"
            )
        if model not in self.making:
            self.making[model] = ReportProgress()
            task = asyncio.create_task(self._make(model))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self.making[model]

    def remake(self, model: str) -> None:
        """Start making a report, whatever exists and whatever became of the last attempt."""
        self.failed.pop(model, None)
        self.make(model)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _make(self, model: str) -> None:
        try:
            async with self._turn:
                await self._run(model)
        except OSError as error:
            self.failed[model] = str(error)
        finally:
            del self.making[model]

    async def _run(self, model: str) -> None:
        folder = self.workspace.reports(model)
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / ".next.html"
        command = ("log", "report", "--supervised", "--model", model, "--output", str(aside))
        until: int | None = None

        def on_message(message: dict[str, Any]) -> None:
            nonlocal until
            until = message.get("until", until)
            self.making[model].receive(message)

        reason = await run_child(self.settings, *command, on_message=on_message)
        if reason is not None or until is None:
            self.failed[model] = reason or "its process did not report the last offset that it covers"
            log_event(log, "report failed", logging.WARNING, model=model, reason=self.failed[model])
            return
        aside.replace(folder / f"{until}.html")
        for page in folder.glob("[0-9]*.html"):
            if page.stem != str(until):
                page.unlink(missing_ok=True)
