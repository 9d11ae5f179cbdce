"""Replays of uploaded logs: stored as they arrive, replayed beside the service one at a time.

upload --chunks--> <state>/replays/.<id>/ --complete--> <id>/{asked.json, log.*} --its turn--> `online log replay`
                                            report.html, report.de.html, or ended.json with an error <----+

The state of a replay follows from its folder, whatever was killed: with a report it is done, with an
error it failed, with neither it waits or runs here, or its service was stopped. Nothing that the
sender says becomes a path.
"""

import asyncio
import json
import logging
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from uuid import uuid4

from online.errors import BadInput, NotFound, Overloaded, TooLarge, Unavailable
from online.plugins.reports.findings import find_translation, read_finding
from online.plugins.reports.job_progress import JobProgress
from online.plugins.reports.schemas import ReplayRequest, ReplayStatus
from online.plugins.reports.settings import ReportSettings
from online.schemas.fields import Language
from online.schemas.json_values import JSONObject
from online.serving.processes.child import run_child
from online.settings import Settings
from online.state.workspace import Workspace
from online.telemetry import log_event

log = logging.getLogger("online.replays")

MAX_REPLAYS = 8  # uploaded logs that wait or run; each may be large
MAX_LOOK_S = 60.0  # to find out what the columns of a table are
ABANDONED_S = 3600.0  # an incomplete upload is deleted after this time
STOPPED = "the service stopped before it was done; send the log again"
COMPRESSIONS, FORMATS = (".gz", ".zst"), (".csv", ".parquet", ".vw", ".dsjson")


def make_file_name(name: str) -> str:
    """Return a new name for an uploaded log: of the sender's name, only a known compression and format are kept."""
    name = name.lower()
    compression = next((each for each in COMPRESSIONS if name.endswith(each)), "")
    format = next((each for each in FORMATS if name.removesuffix(compression).endswith(each)), ".jsonl")
    return f"log-{uuid4().hex}{format}{compression}"  # unique, so that it can be removed from error messages


def find_replays(workspace: Workspace) -> Path:
    """Return the folder of uploaded logs and their reports."""
    return workspace.state / "replays"


@dataclass(slots=True)
class RunningReplay:
    """A replay that waits or runs. cause: why its log was refused, for programs."""

    progress: JobProgress = field(default_factory=JobProgress)
    models: list[str] = field(default_factory=list)
    cause: JSONObject | None = None
    has_begun: bool = False
    task: asyncio.Task[None] | None = None

    def receive(self, message: JSONObject) -> None:
        """Take a message of the child process."""
        self.models = message.get("models", self.models)
        self.cause = message.get("cause", self.cause)
        self.progress.receive(message)


class ReplayJobs:
    """Accepts, runs and deletes replays."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self.settings, self.folder = settings, find_replays(workspace)
        self.limits = settings.part(ReportSettings)
        self.running: dict[str, RunningReplay] = {}
        self._arriving = 0
        self._turn = asyncio.Lock()
        self._looks = asyncio.Lock()

    # reading replays

    def list_replays(self, language: Language = "en") -> list[ReplayStatus]:
        """Return all replays, newest first. language: of the findings."""
        listed = [self._read(path.name, language) for path in self.folder.glob("[0-9a-f]*")]
        return sorted((each for each in listed if each is not None), key=lambda each: each.created_at, reverse=True)

    def load(self, id: str, language: Language = "en") -> ReplayStatus:
        """Return what is stored under an id. Raises NotFound."""
        found = self._read(id, language) if re.fullmatch("[0-9a-f]{32}", id) else None
        if found is None:
            raise NotFound(f"there is no replay {id[:40]!r}; the newest {self.limits.replays_kept} are kept")
        return found

    def page(self, id: str) -> Path:
        """Return its page in English."""
        return self.folder / id / "report.html"

    def _read(self, id: str, language: Language) -> ReplayStatus | None:
        try:
            request = ReplayRequest.model_validate_json((self.folder / id / "asked.json").read_bytes())
        except (OSError, ValueError):
            return None  # deleted meanwhile
        replay, ended = self.running.get(id), self._ended(id)
        facts = {name: getattr(request, name) for name in ("name", "size_bytes", "created_at")}
        models = (replay.models if replay is not None else ended.get("models")) or request.models
        state, error = self._state(id, replay, ended)
        cause = ended.get("cause") if state == "failed" else None
        progress = replay.progress.describe(self._count_ahead(id)) if replay is not None else None
        finding = read_finding(find_translation(self.page(id), language)) if state == "done" else None
        outcome = {"progress": progress, "error": error, "cause": cause, "finding": finding}
        return ReplayStatus(id=id, models=models, state=state, **outcome, **facts)

    def _count_ahead(self, id: str) -> int:
        """Return how many replays come before one that waits: they run in the order in which they arrived."""
        waiting = [*self.running]
        return waiting.index(id) if id in waiting else 0

    def _state(
        self, id: str, replay: RunningReplay | None, ended: JSONObject
    ) -> tuple[Literal["waiting", "running", "done", "failed"], str | None]:
        if replay is not None:
            return ("running" if replay.has_begun else "waiting"), None
        if self.page(id).exists():
            return "done", None
        return "failed", ended.get("error") or STOPPED

    def _ended(self, id: str) -> JSONObject:
        try:
            ended: JSONObject = json.loads((self.folder / id / "ended.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return ended

    # accepting a replay

    async def submit(self, request: ReplayRequest, chunks: AsyncIterator[bytes], announced_bytes: int) -> str:
        """Store a log and queue its replay. Returns its id.

        announced_bytes: its size as the sender announced it, 0 if not. Raises TooLarge, BadInput, Overloaded or
        Unavailable; then nothing of the log is kept.
        """
        id = uuid4().hex
        async with self._stored(f".{id}", request, chunks, announced_bytes) as aside:
            self._begin(id, aside)
        return id

    async def recognise_columns(
        self, request: ReplayRequest, chunks: AsyncIterator[bytes], announced_bytes: int
    ) -> dict[str, object]:
        """Return what the columns of a table are, as a ColumnsAnswer; nothing is kept. Raises as `submit` does."""
        async with self._stored(f".{uuid4().hex}", request, chunks, announced_bytes) as aside:
            return await self._look(aside)

    async def _look(self, folder: Path) -> JSONObject:
        """Look at the columns in a process of its own, one file after the other."""
        answer = JSONObject()
        try:
            async with asyncio.timeout(MAX_LOOK_S), self._looks:
                reason = await run_child(self.settings, "log", "columns", str(folder), on_message=answer.update)
        except TimeoutError:
            raise Overloaded(
                f"the columns were not recognised within {MAX_LOOK_S:g} s; replay the file as it is"
            ) from None
        if reason is not None:
            cause = answer.get("cause") or {"code": "", "figures": {}}
            raise BadInput(reason).because(cause["code"], **cause["figures"])
        found: JSONObject = answer["columns"]
        return found

    @asynccontextmanager
    async def _stored(
        self, name: str, request: ReplayRequest, chunks: AsyncIterator[bytes], announced_bytes: int
    ) -> AsyncIterator[Path]:
        """Store an upload in a folder with what was asked; the folder is deleted at the end, unless it was renamed."""
        self._check_size(announced_bytes)
        if len(self.running) + self._arriving >= MAX_REPLAYS:
            raise Overloaded(
                f"{MAX_REPLAYS} logs are waiting to be replayed already; send the log again when one of them has been replayed"
            ).because("logs_waiting", count=MAX_REPLAYS)
        aside = self.folder / name
        self._arriving += 1
        try:
            await asyncio.to_thread(aside.mkdir, parents=True)
            size = await self._write(aside / request.file, chunks)
            complete = request.model_copy(update={"size_bytes": size})
            await asyncio.to_thread((aside / "asked.json").write_text, complete.model_dump_json())
            yield aside
        except OSError as error:
            raise Unavailable(f"the log could not be written: {error.strerror}; nothing of it was kept") from None
        finally:
            self._arriving -= 1
            await asyncio.to_thread(shutil.rmtree, aside, True)

    def _check_size(self, size: int) -> None:
        if size > self.limits.max_log_bytes:
            raise TooLarge(
                f"the log has {size:,} bytes or more; at most {self.limits.max_log_bytes:,} are taken (max_log_bytes)"
            ).because("log_too_large", limit=self.limits.max_log_bytes)

    async def _write(self, path: Path, chunks: AsyncIterator[bytes]) -> int:
        """Write the chunks as they come; returns the size in bytes."""
        size = 0
        with await asyncio.to_thread(open, path, "wb") as file:
            async for chunk in chunks:
                size += len(chunk)
                self._check_size(size)
                await asyncio.to_thread(file.write, chunk)
        if not size:
            raise BadInput("the log is empty; send its bytes as the body of the request").because("log_empty")
        return size

    # running a replay

    def _begin(self, id: str, aside: Path) -> None:
        aside.rename(self.folder / id)
        replay = self.running[id] = RunningReplay()
        replay.task = asyncio.create_task(self._do(id, replay))

    async def _do(self, id: str, replay: RunningReplay) -> None:
        folder, reason = self.folder / id, None
        try:
            async with self._turn:
                replay.has_begun, replay.progress.what = True, "starting"
                reason = await run_child(self.settings, "log", "replay", str(folder), on_message=replay.receive)
            ended = json.dumps({"models": replay.models, "error": reason, "cause": replay.cause})
            await asyncio.to_thread((folder / "ended.json").write_text, ended)
        except OSError as error:
            log_event(log, "replay failed", logging.WARNING, id=id, reason=str(error))
        finally:
            del self.running[id]
            for path in folder.glob("log-*"):
                path.unlink(missing_ok=True)
        if reason is not None:
            log_event(log, "replay failed", logging.WARNING, id=id, reason=reason)
        await asyncio.to_thread(self.prune)

    def prune(self) -> None:
        """Delete all but the newest ended replays, and uploads that a killed server left incomplete."""
        ended = [each for each in self.list_replays() if each.id not in self.running]
        for each in ended[self.limits.replays_kept :]:
            shutil.rmtree(self.folder / each.id, ignore_errors=True)
        for aside in self.folder.glob(".[0-9a-f]*"):
            with suppress(FileNotFoundError):
                if time.time() - aside.stat().st_mtime > ABANDONED_S:
                    shutil.rmtree(aside, ignore_errors=True)

    async def delete(self, id: str) -> None:
        """End a replay if it waits or runs, and delete everything of it. Raises NotFound."""
        self.load(id)
        replay = self.running.get(id)
        if replay is not None and replay.task is not None:
            replay.task.cancel()
            await asyncio.gather(replay.task, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self.folder / id, True)

    async def stop(self) -> None:
        """Interrupt the running replays."""
        tasks = [replay.task for replay in self.running.values() if replay.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
