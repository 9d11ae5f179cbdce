"""One log line about many refused events: how many, from which to which, and the first of the reasons.

WARNING learner events refused model=topics count=4999 first=3 last=5001 reason="..." reasons=2
"""

import logging
import time
from collections.abc import Callable

from online.store.refusals import mask_values
from online.telemetry import REMINDER_S, log_event

log = logging.getLogger("online.learner")


class RefusalLog:
    """Count what a learner refuses, and log it when nothing more is waiting, once a minute at most."""

    def __init__(self, model: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.model, self.clock = model, clock
        self.offsets: list[int] = []
        self.reason = ""
        self.reasons: set[str] = set()
        self.began_at = 0.0
        self.reported_at: float | None = None

    def add(self, offset: int, reason: str) -> None:
        if not self.offsets:
            self.began_at, self.reason = self.clock(), reason
        self.offsets.append(offset)
        self.reasons.add(mask_values(reason))

    def report(self, is_behind: bool) -> None:
        """Log what is not logged yet, if it is time to. is_behind: whether more events wait to be learned."""
        if not self.offsets:
            return
        now = self.clock()
        since = self.began_at if is_behind else self.reported_at
        if since is None or now - since >= REMINDER_S:
            self.flush()

    def flush(self) -> None:
        """Log what is not logged yet, now."""
        if not self.offsets:
            return
        more = {"reasons": len(self.reasons)} if len(self.reasons) > 1 else {}
        counts = {"count": len(self.offsets), "first": min(self.offsets), "last": max(self.offsets)}
        log_event(log, "events refused", logging.WARNING, model=self.model, **counts, reason=self.reason, **more)
        self.reported_at = self.clock()
        self.offsets, self.reasons = [], set()
