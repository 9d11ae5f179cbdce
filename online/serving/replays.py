"""Logs that were sent to be replayed: taken to disk as they come, replayed beside the service, one at a time.

sent --chunks--> <state>/replays/.<id>/ --whole--> <id>/{asked.json, log.*} --its turn--> `online log replay` --> report.html
                                                                                 \\------> ended.json; the log is gone

What a replay is can be read from its folder at any time, whatever was killed: with a report it is done, with an error it
failed, with neither it waits or runs here, or the service that had it stopped. Nothing that a sender says becomes a path.
"""

import asyncio
import json
import logging
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from online.errors import BadInput, NotFound, Overloaded, TooLarge, Unavailable
from online.observability import fact
from online.schemas import ReplayAsked, ReplayShown
from online.serving.child import followed
from online.serving.reports import Making
from online.settings import Settings
from online.workspace import Workspace

log = logging.getLogger("online.replays")

WAITING = 8  # logs that are here and not yet replayed, at most: each may be large
BROKEN_OFF_S = 3600.0  # after which what came of a log whose server was killed is dropped
STOPPED = "the service stopped before it was done; send the log again"
PACKED, FORMATS = (".gz", ".zst"), (".csv", ".parquet", ".vw", ".dsjson")


def file_for(name: str) -> str:
    """What the log is called here: of its sender's name, only how it is packed and what it holds, where we know that."""
    name = name.lower()
    packed = next((each for each in PACKED if name.endswith(each)), "")
    kind = next((each for each in FORMATS if name.removesuffix(packed).endswith(each)), ".jsonl")
    return f"log-{uuid4().hex}{kind}{packed}"  # nowhere else, so that an error can be told without it


@dataclass(slots=True)
class Doing:
    """One that waits or runs."""

    making: Making = field(default_factory=Making)
    models: list[str] = field(default_factory=list)
    running: bool = False
    task: asyncio.Task[None] | None = None

    def hear(self, told: dict[str, Any]) -> None:
        self.models = told.get("models", self.models)
        self.making.hear(told)


class Replays:
    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self.settings, self.folder = settings, workspace.replays
        self.doing: dict[str, Doing] = {}
        self._arriving = 0
        self._turn = asyncio.Lock()

    # what there is

    def shown(self) -> list[ReplayShown]:
        """All of them, the newest first."""
        listed = [self._read(path.name) for path in self.folder.glob("[0-9a-f]*")]
        return sorted((each for each in listed if each is not None), key=lambda each: each.created_at, reverse=True)

    def one(self, id: str) -> ReplayShown:
        """Raises NotFound."""
        found = self._read(id) if re.fullmatch("[0-9a-f]{32}", id) else None
        if found is None:
            raise NotFound(f"there is no replay {id[:40]!r}; the newest {self.settings.replays_kept} are kept")
        return found

    def page(self, id: str) -> Path:
        return self.folder / id / "report.html"

    def _read(self, id: str) -> ReplayShown | None:
        try:
            asked = ReplayAsked.model_validate_json((self.folder / id / "asked.json").read_bytes())
        except (OSError, ValueError):
            return None  # it was dropped meanwhile
        doing, ended = self.doing.get(id), self._ended(id)
        told = {name: getattr(asked, name) for name in ("name", "size_bytes", "created_at")}
        models = (doing.models if doing is not None else ended.get("models")) or asked.models
        state, error = self._state(id, doing, ended)
        progress = doing.making.shown() if doing is not None else None
        return ReplayShown(id=id, models=models, state=state, progress=progress, error=error, **told)

    def _state(
        self, id: str, doing: Doing | None, ended: dict[str, Any]
    ) -> tuple[Literal["waiting", "running", "done", "failed"], str | None]:
        if doing is not None:
            return ("running" if doing.running else "waiting"), None
        if self.page(id).exists():
            return "done", None
        return "failed", ended.get("error") or STOPPED

    def _ended(self, id: str) -> dict[str, Any]:
        try:
            told: dict[str, Any] = json.loads((self.folder / id / "ended.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return told

    # taking one

    async def take(self, asked: ReplayAsked, chunks: AsyncIterator[bytes], told_bytes: int) -> str:
        """Its id, once the log is here. Raises TooLarge, BadInput, Overloaded or Unavailable, and then nothing of it is left."""
        self._check_size(told_bytes)
        if len(self.doing) + self._arriving >= WAITING:
            raise Overloaded(f"{WAITING} logs wait to be replayed already; send it when one of them is done")
        id = uuid4().hex
        aside = self.folder / f".{id}"
        self._arriving += 1
        try:
            await asyncio.to_thread(aside.mkdir, parents=True)
            size = await self._write(aside / asked.file, chunks)
            whole = asked.model_copy(update={"size_bytes": size})
            await asyncio.to_thread((aside / "asked.json").write_text, whole.model_dump_json())
            self._begin(id, aside)
        except OSError as error:
            raise Unavailable(f"the log could not be written: {error.strerror}; nothing of it was kept") from None
        finally:
            self._arriving -= 1
            await asyncio.to_thread(shutil.rmtree, aside, True)
        return id

    def _check_size(self, size: int) -> None:
        if size > self.settings.max_log_bytes:
            raise TooLarge(
                f"the log has {size:,} bytes or more; at most {self.settings.max_log_bytes:,} are taken (max_log_bytes)"
            )

    async def _write(self, path: Path, chunks: AsyncIterator[bytes]) -> int:
        """Chunk by chunk, never the whole."""
        size = 0
        with await asyncio.to_thread(open, path, "wb") as file:
            async for chunk in chunks:
                size += len(chunk)
                self._check_size(size)
                await asyncio.to_thread(file.write, chunk)
        if not size:
            raise BadInput("the log is empty; send its bytes as the body of the request")
        return size

    # replaying

    def _begin(self, id: str, aside: Path) -> None:
        aside.rename(self.folder / id)
        doing = self.doing[id] = Doing()
        doing.task = asyncio.create_task(self._do(id, doing))

    async def _do(self, id: str, doing: Doing) -> None:
        folder, reason = self.folder / id, None
        try:
            async with self._turn:
                doing.running, doing.making.what = True, "starting"
                reason = await followed(self.settings, "log", "replay", str(folder), hear=doing.hear)
            ended = json.dumps({"models": doing.models, "error": reason})
            await asyncio.to_thread((folder / "ended.json").write_text, ended)
        except OSError as error:
            fact(log, "replay failed", logging.WARNING, id=id, reason=str(error))
        finally:
            del self.doing[id]
            for path in folder.glob("log-*"):
                path.unlink(missing_ok=True)
        if reason is not None:
            fact(log, "replay failed", logging.WARNING, id=id, reason=reason)
        await asyncio.to_thread(self.prune)

    def prune(self) -> None:
        """Keep the newest that ended; drop what a killed server left of a log that never came whole."""
        ended = [each for each in self.shown() if each.id not in self.doing]
        for each in ended[self.settings.replays_kept :]:
            shutil.rmtree(self.folder / each.id, ignore_errors=True)
        for aside in self.folder.glob(".[0-9a-f]*"):
            with suppress(FileNotFoundError):
                if time.time() - aside.stat().st_mtime > BROKEN_OFF_S:
                    shutil.rmtree(aside, ignore_errors=True)

    async def drop(self, id: str) -> None:
        """End it, if it waits or runs, and leave nothing of it. Raises NotFound."""
        self.one(id)
        doing = self.doing.get(id)
        if doing is not None and doing.task is not None:
            doing.task.cancel()
            await asyncio.gather(doing.task, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self.folder / id, True)

    async def stop(self) -> None:
        tasks = [doing.task for doing in self.doing.values() if doing.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
