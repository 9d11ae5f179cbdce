"""Keeps a process of our own alive beside the server; serving goes on whatever becomes of it.

start --> running --dies--> restarting (back-off 0.2 s, doubling) --> running ...
             |stop
             v
          stopped
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from online.observability import fact
from online.schemas import LearnerState
from online.serving.child import heard

log = logging.getLogger("online.supervisor")

FIRST_PAUSE_S = 0.2
HEALTHY_S = 10.0  # a process that lived this long starts again without a pause
STOP_S = 15.0  # a process that does not stop within this is killed


class Supervisor:
    def __init__(
        self,
        name: str,
        begin: Callable[[], Awaitable[asyncio.subprocess.Process]],
        longest_pause_s: float,
        on_change: Callable[[LearnerState], None],
        hear: Callable[[dict[str, Any]], None] = lambda told: None,
    ) -> None:
        """name: what the log calls it. begin: starts one. hear: each line of JSON that it prints, where its output is ours."""
        self.name, self.begin, self.longest_pause_s = name, begin, longest_pause_s
        self.on_change, self.hear = on_change, hear
        self.state = LearnerState(state="stopped")
        self.process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._keep_alive())

    async def stop(self) -> None:
        """Let it finish what it is at, then end it."""
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
            pause = FIRST_PAUSE_S if time.monotonic() - started > HEALTHY_S else min(pause * 2, self.longest_pause_s)
            self._say("restarting", f"it ended with status {status}; next start in {pause:.1f} s")
            await self._pause(pause)

    async def _live_once(self) -> int:
        self.process = await self.begin()
        self._say("running")
        listening = asyncio.create_task(heard(self.process.stdout, self.hear)) if self.process.stdout else None
        try:
            return await self._ended()
        finally:
            if listening is not None:
                listening.cancel()
            assert self.process.stdin is not None
            self.process.stdin.close()

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
        fact(
            log,
            f"{self.name} {state}",
            logging.WARNING if state == "restarting" else logging.INFO,
            **({"reason": reason} if reason else {}),
        )
        self.on_change(self.state)
