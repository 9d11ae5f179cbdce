"""A worker: sums ranges of logs for a learner, or learns a tower with it, until that lets it go.

board --how a model reads; a range--> worker --reads the log, sums--> share --> board
      --a tower's kind, options-----> Follower, until the learner ends it
"""

import json
import logging
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection

from online.learning.shares import EMPTY, ShareReader, SumShare, unpack_state
from online.models import Options
from online.plugins.workers.board import Address
from online.plugins.workers.follower import TowerFollower
from online.stream.contract import Stream
from online.telemetry import log_event

log = logging.getLogger("online.worker")

FindDevice = Callable[[int], str]  # where the n-th worker of a team learns towers
OpenStream = Callable[[str, Options], Stream]  # of a model with these options


def work(address: Address, key: bytes, open_stream: OpenStream, find_device: FindDevice = lambda place: "cpu") -> int:
    """Work until the learner closes the connection; return how many.

    Raises OSError if nothing listens there, and multiprocessing.AuthenticationError for another key.
    """
    with Client(address, authkey=key) as connection:
        log_event(log, "joined", address=str(address))
        worker = ShareWorker(open_stream, "127.0.0.1" if isinstance(address, str) else address[0], find_device)
        try:
            while True:
                worker.answer(connection)
        except (EOFError, ConnectionError):
            log_event(log, "let go", ranges=worker.count)
        finally:
            worker.close()
    return worker.count


class ShareWorker:
    """The readers of all models that were asked for. count: ranges that were answered."""

    def __init__(self, open_stream: OpenStream, leader_host: str, find_device: FindDevice) -> None:
        self._open_stream, self._leader_host, self._find_device = open_stream, leader_host, find_device
        self._readers: dict[str, ShareReader] = {}
        self.count = 0

    def answer(self, connection: Connection) -> None:
        """Take one message, and do what it asks for."""
        message = json.loads(connection.recv_bytes())
        if "mirror" in message:
            TowerFollower(connection, message, self._leader_host, self._find_device(message["place"])).follow()
        elif "kind" in message:
            self._read_as(message, connection.recv_bytes())
        else:
            connection.send_bytes(self._sum_up(message["model"], message["after"], message["until"]).pack())
            self.count += 1

    def _read_as(self, message: dict[str, object], state: bytes) -> None:
        name, kind, options = str(message["model"]), str(message["kind"]), message["options"]
        assert isinstance(options, dict)
        self._close(name)
        self._readers[name] = ShareReader(kind, options, self._open_stream(name, options), unpack_state(state))

    def _sum_up(self, name: str, after: int, until: int) -> SumShare:
        """Return the share of a range; an empty one after any error, so that the learner learns it itself, and meets the cause."""
        started = time.perf_counter()
        try:
            share = self._readers[name].sum_up(after, until)
        except Exception as error:  # it would end one worker after the other
            reason = f"{type(error).__name__}: {error}"
            log_event(log, "range not summed", logging.WARNING, model=name, after=after, reason=reason)
            return EMPTY
        elapsed_ms = round(1e3 * (time.perf_counter() - started), 1)
        log_event(log, "summed", logging.DEBUG, model=name, after=after, until=until, elapsed_ms=elapsed_ms)
        return share

    def _close(self, name: str) -> None:
        if name in self._readers:
            self._readers.pop(name).stream.close()

    def close(self) -> None:
        """Close the streams of all models."""
        for name in list(self._readers):
            self._close(name)
