"""The store process: commits feedback and copies the journal of predictions, so that SQL takes no time from the answers.

    socket --work--> queue of the store --all that waits: one transaction, one fsync--> outcomes --> socket
                          ^                                          |
    journal --copier, behind the others                              +--> the learner is woken

It is `online store`, a child of the first worker. It ends when the first worker does, or says so.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from online.schemas.feedback import Receipt
from online.serving.processes.store_messages import (
    READY,
    BrokenChannel,
    Frames,
    Work,
    WriteOutcome,
    describe_failure,
    describe_receipts,
    frame,
    read_work,
)
from online.telemetry import log_event

log = logging.getLogger("online.store")

Submit = Callable[[Work], "Future[list[Receipt]]"]
READ_BYTES = 1 << 18
SWITCH_INTERVAL_S = 0.0005  # the thread that commits waits at most this long for the one that reads


class StoreProcess:
    """Does the work that arrives on a socket, until the other end closes it."""

    def __init__(self, channel: socket.socket, submit: Submit, on_end: Callable[[], None]) -> None:
        """submit: queues work for the store. on_end: called when the connection has ended."""
        self._channel, self._submit, self._on_end = channel, submit, on_end
        self._sending = threading.Lock()

    def start(self) -> None:
        """Work in a thread."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        threading.Thread(target=self.run, name="store-channel", daemon=True).start()

    def run(self) -> None:
        """Answer requests until the connection is closed."""
        frames = Frames()
        self._send(WriteOutcome(READY))
        try:
            while data := self._channel.recv(READ_BYTES):
                for payload in frames.feed(data):
                    self._begin(*read_work(payload))
        except BrokenChannel as error:
            log_event(log, "the connection to the server is broken", logging.ERROR, reason=str(error))
        except OSError:
            pass  # the server is gone
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)  # the server does itself what was not answered
        self._on_end()

    def _begin(self, number: int, work: Work) -> None:
        self._submit(work).add_done_callback(lambda done: self._send(describe(number, done)))

    def _send(self, outcome: WriteOutcome) -> None:
        with suppress(OSError), self._sending:
            self._channel.sendall(frame(outcome))


def describe(number: int, done: "Future[list[Receipt]]") -> WriteOutcome:
    """Return the answer of a finished request."""
    error = done.exception()
    if error is None:
        return describe_receipts(number, done.result())
    outcome = describe_failure(number, error)
    assert outcome.failure is not None
    if not outcome.failure.name:
        log.error("work of the store failed", exc_info=error)
    return outcome
