"""The first worker's end of the connection to the store process.

    perform(work) --connected--> store process --> receipts
         |                          | it ends, or does not answer
         +---- not connected -------+--> the same work in this process

Work may be done twice: every item has its id, so that the second time finds the first and returns the same receipts.
"""

import asyncio
import logging
import socket
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

import msgspec

from online.schemas.feedback import Receipt
from online.serving.processes.store_messages import (
    READY,
    BrokenChannel,
    Frames,
    SubmitFeedback,
    Work,
    WriteOutcome,
    frame,
    read_outcome,
    receipts_of,
)
from online.serving.processes.store_process import Submit
from online.telemetry import log_event

log = logging.getLogger("online.store")

StartProcess = Callable[[int], Awaitable[Process]]
MAX_UNSENT_BYTES = 1 << 26  # beyond it, work is done in this process
PATIENCE_S = (
    2.0  # work that is not answered for so long is done in this process, and so is later work until an answer comes
)
ANSWER_S = 30.0  # a process that has not answered for so long is killed; the database itself gives up after 10 s
CHECK_EVERY_S = 1.0


class StoreClient:
    """Lets the store process do work, and does it in this process where there is none. For one event loop."""

    def __init__(self, submit: Submit, start_process: StartProcess | None = None) -> None:
        """submit: queues work for the store in this process. start_process: starts a child that has the file descriptor."""
        self.submit, self._start_process = submit, start_process
        self.channel: Channel | None = None

    async def perform(self, work: Work) -> list[Receipt]:
        """Return once it is committed. Raises what the work raises."""
        outcome = None if self.channel is None else await self.channel.ask(work)
        if outcome is not None:
            return receipts_of(outcome)
        if isinstance(work, SubmitFeedback):  # the process that was asked may have committed it
            work = msgspec.structs.replace(work, may_be_known=True)
        return await asyncio.wrap_future(self.submit(work))

    async def start(self) -> Process:
        """Start the process with a connection of its own. Raises OSError."""
        assert self._start_process is not None, "a client without a process is not started"
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await self._start_process(theirs.fileno())
            ours.setblocking(False)
            channel = Channel(process)
            await asyncio.get_running_loop().create_connection(lambda: channel, sock=ours)
        except BaseException:
            ours.close()
            raise
        self.channel = channel
        return process


class Channel(asyncio.Protocol):
    """The connection to one process. is_ready: whether the process can work. is_late: whether it leaves work unanswered."""

    def __init__(self, process: Process) -> None:
        self.process, self.is_ready, self.is_late = process, False, False
        self._frames, self._last = Frames(), READY
        self._waiting: dict[int, tuple[float, asyncio.Future[WriteOutcome | None]]] = {}  # with the time of the request

    async def ask(self, work: Work) -> WriteOutcome | None:
        """Return what became of the work; None where it is not known: the process has ended, is late, or was not asked."""
        if not self.is_ready or self.is_late or self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            return None
        self._last += 1
        try:
            message = frame((self._last, work))
        except ValueError:  # it is too long, or has text that is not Unicode
            return None
        answer: asyncio.Future[WriteOutcome | None] = self._loop.create_future()
        self._waiting[self._last] = self._loop.time(), answer
        self._transport.write(message)
        return await answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to watch the connection."""
        self._transport, self._loop = cast(asyncio.Transport, transport), asyncio.get_running_loop()
        self._loop.call_later(CHECK_EVERY_S, self._check)

    def data_received(self, data: bytes) -> None:
        """Give each answer to its caller. The connection is given up if the bytes are no answers."""
        try:
            for payload in self._frames.feed(data):
                self._receive(read_outcome(payload))
        except BrokenChannel as error:
            self._give_up(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what waits for an answer."""
        self.is_ready = False
        waiting, self._waiting = self._waiting, {}
        for _, answer in waiting.values():
            if not answer.done():
                answer.set_result(None)

    def _receive(self, outcome: WriteOutcome) -> None:
        if outcome.number == READY:
            self.is_ready = True
            return
        self.is_late = False
        _, answer = self._waiting.pop(outcome.number, (0.0, None))
        if answer is not None and not answer.done():  # the request may have been cancelled
            answer.set_result(outcome)

    def _check(self) -> None:
        """Do not wait for a late process, and kill one that does not answer any more."""
        if self._transport.is_closing():
            return
        now = self._loop.time()
        oldest = next((sent_at for sent_at, _ in self._waiting.values()), now)
        for sent_at, answer in self._waiting.values():
            if now - sent_at > PATIENCE_S and not answer.done():
                answer.set_result(None)
        self.is_late = now - oldest > PATIENCE_S
        if now - oldest > ANSWER_S:
            self._give_up(f"it has not answered for {ANSWER_S:g} s")
        else:
            self._loop.call_later(CHECK_EVERY_S, self._check)

    def _give_up(self, reason: str) -> None:
        log_event(log, "the store process is killed", logging.ERROR, pid=self.process.pid, reason=reason)
        with suppress(ProcessLookupError):
            self.process.kill()
        self._transport.abort()
