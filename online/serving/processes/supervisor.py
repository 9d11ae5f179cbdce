"""Keeps a child process alive beside the server; serving continues even if it fails.

start --> running --dies--> restarting (back-off 0.2 s, doubling) --> running ...
             |stop
             v
          stopped
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from online.io.backoff import Backoff
from online.schemas.fields import Cause, CauseCode
from online.schemas.json_values import JSONObject
from online.schemas.models import LearnerState
from online.serving.processes.child import read_messages
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.supervisor")

FIRST_PAUSE_S = 0.2
HEALTHY_S = 10.0  # a process that lived this long is restarted with the shortest pause
STOP_S = 15.0  # a process that does not stop within this time is killed


class Supervisor:
    """Starts one child process, and starts it again whenever it ends."""

    def __init__(
        self,
        name: str,
        start_process: Callable[[], Awaitable[asyncio.subprocess.Process]],
        max_pause_s: float,
        on_change: Callable[[LearnerState], None],
        on_message: Callable[[JSONObject], None] = lambda message: None,
    ) -> None:
        """name: of the process in log lines. on_change: called with each new state.

        on_message: called with each line of JSON that the process prints, if its output is a pipe.
        """
        self.name, self.start_process = name, start_process
        self.on_change, self.on_message = on_change, on_message
        self.state = LearnerState(state="stopped")
        self.process: asyncio.subprocess.Process | None = None
        self._backoff = Backoff(FIRST_PAUSE_S, max_pause_s, HEALTHY_S)
        self._outage = OutageLog(log, f"{name} restarting")
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Start the child process, and keep it alive in the background."""
        self._task = asyncio.create_task(self._keep_alive())

    async def stop(self) -> None:
        """Let the process finish its current work, then end it."""
        self._stopping.set()
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
        if self._task is not None:
            await self._task
        log_event(log, f"{self.name} stopped")
        self._set_state("stopped")

    async def _keep_alive(self) -> None:
        code: CauseCode
        figures: dict[str, float | int | str]
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                status = await self._run_once()
                found, code, figures = f"it ended with status {status}", "process_ended", {"status": status}
            except OSError as error:  # no process, no file descriptor or no memory is free
                found, code, figures = f"it cannot be started: {error}", "process_not_started", {"error": str(error)}
            if self._stopping.is_set():
                return
            pause_s = self._backoff.fail(time.monotonic() - started)
            reason = f"{found}; next start in {pause_s:.1f} s"
            self._outage.record_failure(reason)
            cause = Cause(code=code, figures={**figures, "pause_s": pause_s})
            self._set_state("restarting", reason, cause)
            await self._pause(pause_s)

    async def _run_once(self) -> int:
        """Start the process and wait for its end. Returns its exit status."""
        self.process = await self.start_process()
        self._report_running()
        output = self.process.stdout
        reader = asyncio.create_task(read_messages(output, self.on_message)) if output else None
        try:
            return await self._wait_for_end()
        finally:
            if reader is not None:
                reader.cancel()
            assert self.process.stdin is not None
            self.process.stdin.close()

    def _report_running(self) -> None:
        if not self._outage.is_ongoing:  # a process that keeps dying is reported as an outage
            log_event(log, f"{self.name} running")
        self._set_state("running")

    async def _wait_for_end(self) -> int:
        """Return the exit status. Once this supervisor stops, the process has STOP_S seconds to end."""
        assert self.process is not None
        ended = asyncio.create_task(self.process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ended, stopping}, timeout=HEALTHY_S, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and not stopping.done():
            self._outage.record_success()
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            await asyncio.wait({ended}, timeout=STOP_S)
        if not ended.done():
            self.process.kill()
        return await ended

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _set_state(self, state: str, reason: str | None = None, cause: Cause | None = None) -> None:
        self.state = LearnerState.model_validate({"state": state, "reason": reason, "cause": cause})
        self.on_change(self.state)
