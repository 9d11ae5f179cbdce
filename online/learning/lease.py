"""The lease with which one replica alone learns a model whose kind is not exact.

    free --take--> held --prolong, each second, in a thread--> held ...     a learning step may take as long as it likes
                    | another replica has taken it: this one was too slow, or cut off
                    v
                   lost --> the learner stops, and its replica stands by

The state of such a model depends on batches and processors, so two learners would not agree. Whether a lease is held is decided by
the store alone: it compares the token in the transaction that publishes (`store.claims.claim`).
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from online.errors import LeaseLost, Unavailable
from online.store import Store
from online.store.leases import LeaseToken, list_holders, prolong_lease, release_lease, take_lease
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.learner")

DURATION_S = 3.0  # a standby takes over so long after the holder was killed
PROLONG_EVERY_S = 1.0
POLL_S = 0.25  # between two looks of a standby


class LearnerLease:
    """The lease on one model, for the learner of one replica. token: None while it is not held."""

    def __init__(self, store: Store, model: str, replica: str, duration_s: float = DURATION_S) -> None:
        self.store, self.model, self.replica, self.duration_s = store, model, replica, duration_s
        self.token: LeaseToken | None = None
        self._is_lost, self._ending = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._outage = OutageLog(log, "the lease is not prolonged", model=model)

    def stand_by(self, stop: threading.Event, prepare: Callable[[], None] = lambda: None) -> bool:
        """Return whether this replica holds the lease, once it does, or once `stop` is set. Logs that it waits, and that it learns.

        prepare: called once if it has to wait, and does in advance what would delay the takeover.
        """
        waits_for = ""
        while not stop.is_set():
            try:
                holder = self._find_other()
                if holder is None and self.take():
                    log_event(log, "learning alone", model=self.model, fence=self.token.fence if self.token else 0)
                    return True
                if holder is not None and not waits_for:
                    waits_for = holder
                    log_event(log, "standing by", model=self.model, learned_by=holder)
                    prepare()
                self._outage.record_success()
            except Unavailable as error:
                self._outage.record_failure(error)
            stop.wait(POLL_S)
        return False

    def _find_other(self) -> str | None:
        holder = self.store.read(list_holders).get(self.model)
        return None if holder == self.replica else holder

    def take(self) -> bool:
        """Take the lease, and prolong it in a thread until `release`; return False if another replica has it. Raises Unavailable."""
        self.stop_prolonging()
        take = partial(take_lease, model=self.model, holder=self.replica, duration_s=self.duration_s)
        self.token = self.store.submit(take, is_background=True).result()
        if self.token is None:
            return False
        self._is_lost.clear()
        self._ending = threading.Event()
        arguments = self.token, self._ending
        self._thread = threading.Thread(target=self._prolong, args=arguments, name=f"lease-{self.model}", daemon=True)
        self._thread.start()
        return True

    def _prolong(self, token: LeaseToken, ending: threading.Event) -> None:
        prolong = partial(prolong_lease, model=self.model, token=token, duration_s=self.duration_s)
        while not ending.wait(PROLONG_EVERY_S):
            try:
                if not self.store.submit(prolong, is_background=True).result():
                    self._is_lost.set()
                    return
                self._outage.record_success()
            except Unavailable as error:  # nobody else may have taken it by then: the store decides
                self._outage.record_failure(error)

    def check(self) -> None:
        """Raise LeaseLost if it is known that another replica has taken the lease. This is quick."""
        if self.token is None or self._is_lost.is_set():
            raise LeaseLost(f"{self.replica} has lost the lease on {self.model} to another replica, and stands by")

    def stop_prolonging(self) -> None:
        """End the thread. The lease is then held until it runs out, as when this process is killed."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Release the lease when the block ends, however it ends: another replica goes on then, or this one starts again."""
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Let another replica take the lease at once. Without the store it runs out."""
        self.stop_prolonging()
        token, self.token = self.token, None
        if token is None:
            return
        try:
            self.store.submit(partial(release_lease, model=self.model, token=token), is_background=True).result()
        except Unavailable as error:
            self._outage.record_failure(error)
