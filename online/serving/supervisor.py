"""Keeps a learner process alive beside the server; serving goes on whatever becomes of it.

start --> running --dies--> restarting (back-off 0.2 s, doubling) --> running ...
             |stop
             v
          stopped
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable

from online.observability import Metrics, fact
from online.schemas import LearnerState
from online.settings import Settings

log = logging.getLogger("online.supervisor")

FIRST_PAUSE_S = 0.2
HEALTHY_S = 10.0  # a learner that lived this long starts again without a pause
STOP_S = 10.0  # a learner that does not stop within this is killed


class Supervisor:
    def __init__(self, settings: Settings, metrics: Metrics, on_change: Callable[[LearnerState], None]) -> None:
        self.settings, self.metrics, self.on_change = settings, metrics, on_change
        self.state = LearnerState(state="stopped")
        self.process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._keep_alive())

    async def stop(self) -> None:
        """Let the learner make its state durable, then end it."""
        self._stopping.set()
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
        if self._task is not None:
            await self._task
        self._say("stopped")

    async def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            started = time.monotonic()
            status = await self._live_once()
            if self._stopping.is_set():
                return
            pause = (
                FIRST_PAUSE_S if time.monotonic() - started > HEALTHY_S else min(pause * 2, self.settings.restart_max_s)
            )
            self.metrics.learner_restarts.inc()
            self._say("restarting", f"it ended with status {status}; next start in {pause:.1f} s")
            await self._pause(pause)

    async def _live_once(self) -> int:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "online",
            "learn",
            "--supervised",
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(self.settings.model_dump_json().encode() + b"\n")
        self._say("running")
        status = await self._ended()
        self.process.stdin.close()
        return status

    async def _ended(self) -> int:
        """The process's status; once we are stopping it is given STOP_S seconds."""
        assert self.process is not None
        ended = asyncio.create_task(self.process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            await asyncio.wait({ended}, timeout=STOP_S)
        if not ended.done():
            self.process.kill()
        return await ended

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    def _say(self, state: str, reason: str | None = None) -> None:
        self.state = LearnerState.model_validate({"state": state, "reason": reason})
        self.metrics.learner_up.set(state == "running")
        fact(
            log,
            f"learner {state}",
            logging.WARNING if state == "restarting" else logging.INFO,
            **({"reason": reason} if reason else {}),
        )
        self.on_change(self.state)
