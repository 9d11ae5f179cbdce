"""Tells the subscribers of one model's events that feedback has arrived, also while nothing is learned.

commit, of any process --wakeup--> the head of the log has moved --> event `received`, at most one a second
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from online.errors import Unavailable
from online.io.wakeup import Wakeup
from online.serving.event_feed import EventFeed
from online.telemetry import OutageLog

log = logging.getLogger("online.serving")

REST_S = 1.0  # between two events
POLL_S = 5.0  # the head is also read this often without a wakeup: another machine may have committed


class ArrivalNotifier:
    """Watches the log of one model while somebody follows its events. read_head: its newest offset, from the store."""

    def __init__(self, model: str, wakeup: Wakeup, read_head: Callable[[], int], feed: EventFeed) -> None:
        self.wakeup, self.read_head, self.feed = wakeup, read_head, feed
        self.head: int | None = None
        self._outage = OutageLog(log, "arrivals not sent", model=model)

    async def run(self) -> None:
        """Watch until cancelled."""
        loop, woken, listener = asyncio.get_running_loop(), asyncio.Event(), self.wakeup.listen()

        def on_wakeup() -> None:
            listener.clear()
            woken.set()

        loop.add_reader(listener.fileno(), on_wakeup)
        try:
            while True:
                woken.clear()
                await self.check()
                await asyncio.sleep(REST_S)  # commits meanwhile share the next event
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await woken.wait()
        finally:
            loop.remove_reader(listener.fileno())
            listener.close()

    async def check(self) -> None:
        """Send an event if the log has grown since the last check. Without subscribers, the store is not asked."""
        if not self.feed.has_subscribers:
            return
        try:
            before, self.head = self.head, await asyncio.to_thread(self.read_head)
        except Unavailable as error:
            self._outage.record_failure(error)
            return
        self._outage.record_success()
        if self.head != before:
            self.feed.notify("received", head=self.head)
