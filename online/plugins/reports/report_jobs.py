"""Reports of models: written by a child process of low priority, one at a time.

request --a fresh report exists--> its page
        --otherwise--> `online log report` --progress--> <state>/reports/<model>/<offset>.html, .de.html
"""

import asyncio
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from online.errors import NotFound, Unavailable
from online.plugins.reports.findings import find_translation, read_finding
from online.plugins.reports.job_progress import JobProgress
from online.plugins.reports.schemas import ReportEntry, ReportState
from online.schemas.fields import Language
from online.schemas.json_values import JSONObject
from online.serving.processes.child import run_child
from online.settings import Settings
from online.state.workspace import Workspace, name_translation
from online.telemetry import log_event

log = logging.getLogger("online.reports")

TRANSLATIONS: tuple[Language, ...] = ("de",)  # of each page
FRESH_S = 60.0  # a report of a growing log is written again after this time at the earliest
REPORTS_KEPT = 5  # of each model, so that an address that was passed on still shows something


def find_reports(workspace: Workspace) -> Path:
    """Return the folder that has a folder of reports for each model."""
    return workspace.state / "reports"


class ReportJobs:
    """Makes reports and finds their pages. failed: why the last attempt failed, by model."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self.settings, self.workspace = settings, workspace
        self.making: dict[str, JobProgress] = {}
        self.failed: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    def page(self, model: str, until: int | None = None) -> Path | None:
        """Return the page of the report up to offset `until`, or of the newest, in English; None if there is none yet.

        Raises NotFound for an `until` that has no report.
        """
        pages = {int(path.stem): path for path in self._pages(model)}
        if until is not None and until not in pages:
            raise NotFound(f"there is no report of {model} up to event {until}; leave out `until` for the newest")
        return pages[until if until is not None else max(pages)] if pages else None

    def is_fresh(self, page: Path, head: int) -> bool:
        """Return whether a page shows the log until its head, or is new enough."""
        with suppress(FileNotFoundError):  # another server has just deleted it
            return int(page.stem) == head or time.time() - page.stat().st_mtime < FRESH_S
        return False

    def state(self, model: str, head: int, language: Language = "en") -> ReportState:
        """Return the newest report and the progress of the next one. Reads the folder. language: of the findings."""
        making = self.making.get(model)  # read before the folder: a report that is done by now is found there
        reports = self._list(model, language)
        newest = reports[0] if reports else None
        return ReportState(
            until=newest.until if newest else None,
            made_at=newest.made_at if newest else None,
            head=head,
            making=making.describe([*self.making].index(model)) if making is not None else None,
            failed=self.failed.get(model),
            reports=reports,
        )

    def _list(self, model: str, language: Language) -> list[ReportEntry]:
        """Return the reports of a model, newest first."""
        while True:
            pages = self._pages(model)
            found = [entry for page in pages if (entry := describe_page(page, language)) is not None]
            if found or not pages:  # else all were replaced since the folder was read: read it again
                return found

    def make(self, model: str) -> JobProgress:
        """Start writing a report, unless one is in progress.

        Raises Unavailable, once, with the reason if the last attempt failed.
        """
        if model in self.failed:
            raise Unavailable(
                f"the report of {model} could not be written: {self.failed.pop(model)}; send the request again to try again"
            )
        if model not in self.making:
            self.making[model] = JobProgress()
            self._tasks[model] = asyncio.create_task(self._make(model))
        return self.making[model]

    def remake(self, model: str) -> None:
        """Start making a report, whatever exists and whatever became of the last attempt."""
        self.failed.pop(model, None)
        self.make(model)

    async def cancel(self, model: str) -> bool:
        """Stop the making of a report; returns False if none is in progress."""
        task = self._tasks.get(model)
        if task is None:
            return False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._end(model)  # a task that had not begun ends without a step
        return True

    def _end(self, model: str) -> None:
        self.making.pop(model, None)
        self._tasks.pop(model, None)

    async def stop(self) -> None:
        """Cancel the reports in progress."""
        await asyncio.gather(*(self.cancel(model) for model in [*self._tasks]))

    async def _make(self, model: str) -> None:
        try:
            async with self._turn:
                await self._run(model)
        except OSError as error:
            self.failed[model] = str(error)
        finally:
            self._end(model)

    async def _run(self, model: str) -> None:
        folder = self.workspace.state / "reports" / model
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / ".next.html"
        command = ("log", "report", "--supervised", "--model", model, "--output", str(aside))
        until: int | None = None

        def on_message(message: JSONObject) -> None:
            nonlocal until
            until = message.get("until", until)
            self.making[model].receive(message)

        reason = await run_child(self.settings, *command, on_message=on_message)
        if reason is not None or until is None:
            self.failed[model] = reason or "its process did not report the last offset that it covers"
            log_event(log, "report failed", logging.WARNING, model=model, reason=self.failed[model])
            return
        page = folder / f"{until}.html"
        for language in TRANSLATIONS:  # first, because a report is known by its page in English
            name_translation(aside, language).replace(name_translation(page, language))
        aside.replace(page)
        self.prune(model, REPORTS_KEPT)

    def prune(self, model: str, kept: int) -> None:
        """Delete all but the newest reports of a model."""
        for page in self._pages(model)[kept:]:
            for each in (page, *(name_translation(page, language) for language in TRANSLATIONS)):
                each.unlink(missing_ok=True)

    def _pages(self, model: str) -> list[Path]:
        """Return the pages of a model in English, newest first."""
        pages = (page for page in (find_reports(self.workspace) / model).glob("[0-9]*.html") if page.stem.isdecimal())
        return sorted(pages, key=lambda page: -int(page.stem))


def describe_page(page: Path, language: Language) -> ReportEntry | None:
    """Return None if the page was deleted meanwhile."""
    with suppress(FileNotFoundError):
        made_at = datetime.fromtimestamp(page.stat().st_mtime, UTC).isoformat()
        return ReportEntry(
            until=int(page.stem), made_at=made_at, finding=read_finding(find_translation(page, language))
        )
    return None
