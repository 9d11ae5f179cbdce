"""Tunes text encoders beside the service, in a child process of low priority.

check --enough was learned since the last attempt--> `online adapt --publish` --outcome--> log, event feed
  ^                                                        |
  +------------- encoder_adapt_every_s later --------------+   one attempt at a time
"""

import asyncio
import json
import logging
from asyncio.subprocess import PIPE
from contextlib import suppress

from sqlalchemy import Connection

from online.errors import TooLarge, Unavailable
from online.models import can_tune_encoder
from online.plugins.encoder_tuning.settings import TuningSettings
from online.serving.parts import ServicePart
from online.serving.processes.child import kill_child, start_child
from online.serving.processes.time_limit import limited_time
from online.serving.runtime import Runtime
from online.store.encoder_moves import load_adaptation
from online.store.events import head_of
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.encoder_tuner")

MIN_NEW_EVENTS = 50  # since the last attempt
MIN_GROWTH = 10  # the new events are also at least a tenth of the log


class EncoderTuner(ServicePart):
    """Starts an attempt for each model whose encoder can be tuned, when it has enough new feedback."""

    def __init__(self, runtime: Runtime) -> None:
        self.settings, self.store = runtime.settings, runtime.workspace.store
        self.feeds = {
            name: model.feed
            for name, model in runtime.models.items()
            if can_tune_encoder(model.spec.kind, model.spec.options)
        }
        self.models = [*self.feeds]
        self.tried_until = dict.fromkeys(self.models, 0)  # by this process, whatever the outcome
        self._outage = OutageLog(log, "encoder tuning failed")
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Start tuning in the background."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop at once: an attempt changes nothing before its one transaction."""
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
                    self._outage.record_success()
                except (Unavailable, OSError) as error:
                    self._outage.record_failure(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.part(TuningSettings).encoder_adapt_every_s):
                    await self._stopping.wait()

    def _is_due(self, model: str) -> bool:
        def read_offsets(connection: Connection) -> tuple[int, int]:
            adaptation = load_adaptation(connection, model) or {}
            return head_of(connection, model), int(adaptation.get("judged_until", 0))

        head, judged_until = self.store.read(read_offsets)
        last = max(judged_until, self.tried_until[model])
        is_due = bool(head - last >= max(MIN_NEW_EVENTS, last // MIN_GROWTH))
        self.tried_until[model] = head if is_due else self.tried_until[model]
        return is_due

    async def _attempt(self, model: str) -> None:
        command = ("adapt", "--supervised", "--publish", "--json", "--model", model)
        process = await start_child(self.settings, *command, stdout=PIPE)
        assert process.stdout is not None
        log_event(log, "tuning", model=model, pid=process.pid)
        try:
            async with limited_time(self.settings):
                output = await process.stdout.read()
                status = await process.wait()
        except TooLarge as error:
            log_event(log, "tuning ended", logging.WARNING, model=model, reason=str(error))
            return
        finally:
            await kill_child(process)
        if status != 0:
            log_event(log, "tuning failed", logging.WARNING, model=model, status=status)
            return
        outcome = json.loads(output)
        log_event(log, "tuned", model=model, **outcome)
        version = outcome["version"]
        self.feeds[model].notify("adapted", **{**outcome, "version": None if version is None else str(version)})
