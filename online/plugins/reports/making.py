"""The reports and the replays of uploaded logs that a service makes."""

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from online.plugins.reports.replay_jobs import ReplayJobs
from online.plugins.reports.report_jobs import ReportJobs, find_reports
from online.serving.parts import PruningRun, ServicePart
from online.serving.runtime import Runtime


class ReportMaking(ServicePart):
    """reports: of the models. replays: of uploaded logs."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.reports = ReportJobs(runtime.settings, runtime.workspace)
        self.replays = ReplayJobs(runtime.settings, runtime.workspace)

    async def start(self) -> None:
        """Delete what an interrupted replay left behind."""
        if self.runtime.is_primary:
            await asyncio.to_thread(self.replays.prune)

    async def prune(self, pruning: PruningRun) -> None:
        """Delete old reports and replays."""
        if pruning.before is not None:
            await asyncio.to_thread(self._remove_older, pruning.before)

    def _remove_older(self, before: str) -> None:
        pages = [*find_reports(self.runtime.workspace).glob("*/[0-9]*.html")]
        reports = remove_files(pages, before)
        old = [each.id for each in self.replays.list_replays() if each.created_at < before]
        replays = [id for id in old if id not in self.replays.running]
        for id in replays:
            shutil.rmtree(self.replays.folder / id, ignore_errors=True)
        pruned = self.runtime.metrics.pruned
        pruned.labels("reports").inc(sum(path.stem.isdecimal() for path in reports))  # without the translations of each
        pruned.labels("replays").inc(len(replays))

    async def close(self) -> None:
        """Stop the reports and replays in progress."""
        await self.reports.stop()
        await self.replays.stop()


def remove_files(paths: Iterable[Path], before: str) -> list[Path]:
    """Delete the files that were written before an instant (ISO 8601, UTC); return them."""
    removed = [path for path in paths if modified_at(path) < before]
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def modified_at(path: Path) -> str:
    """Return when a file was written, ISO 8601 in UTC; the end of time for one that is gone."""
    with suppress(FileNotFoundError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
    return "9999"
