"""Has text encoders tuned beside the service, by a process of low priority that comes and goes.

look --enough was taught since the last attempt--> `online adapt --publish` --outcome--> log, event feed, the model's status
  ^                                                        |
  +------------- encoder_adapt_every_s later --------------+   one attempt at a time; none outlives the service
"""

import asyncio
import json
import logging
from asyncio.subprocess import PIPE
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from online.errors import Unavailable
from online.models.encoder import adapts
from online.observability import fact
from online.serving.child import end_child, start_child
from online.settings import Settings
from online.store import Store, adaptation_of
from online.stream import head_of

log = logging.getLogger("online.tuner")

NEW = 50  # events at least since the last attempt, and
GROWTH = 10  # a tenth of the log


class Tuner:
    """tell(model, outcome) is called after each attempt."""

    def __init__(self, settings: Settings, store: Store, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self.settings, self.store, self.tell = settings, store, tell
        self.models = [model.name for model in settings.models if adapts(model.kind, model.options)]
        self.tried_until = dict.fromkeys(self.models, 0)  # in this process, whatever came of it
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """At once: an attempt changes nothing before its one transaction."""
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            for model in self.models:
                try:
                    if await asyncio.to_thread(self._is_due, model):
                        await self._attempt(model)
                except (Unavailable, OSError) as error:
                    fact(log, "no attempt", logging.WARNING, model=model, reason=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self.settings.encoder_adapt_every_s)

    def _is_due(self, model: str) -> bool:
        def asked(connection: Connection) -> tuple[int, int]:
            told = adaptation_of(connection, model) or {}
            return head_of(connection, model), int(told.get("judged_until", 0))

        head, judged_until = self.store.read(asked)
        last = max(judged_until, self.tried_until[model])
        due = bool(head - last >= max(NEW, last // GROWTH))
        self.tried_until[model] = head if due else self.tried_until[model]
        return due

    async def _attempt(self, model: str) -> None:
        command = ("adapt", "--supervised", "--publish", "--json", "--model", model)
        process = await start_child(self.settings, *command, stdout=PIPE)
        assert process.stdout is not None
        fact(log, "tuning", model=model, pid=process.pid)
        try:
            printed = await process.stdout.read()
            status = await process.wait()
        finally:
            await end_child(process)
        if status != 0:
            fact(log, "attempt failed", logging.WARNING, model=model, status=status)
            return
        outcome = json.loads(printed)
        fact(log, "tuned", model=model, **outcome)
        self.tell(model, outcome)
