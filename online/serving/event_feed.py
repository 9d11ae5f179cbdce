"""Events of one model (published, frozen, learned, ...) for clients that subscribe to them.

swap, operator, learner --notify--> one bounded queue per subscriber --> server-sent events
what only this process knows --send_everywhere--> also to the subscribers of other replicas
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from online.errors import Overloaded
from online.schemas.access.callers import Scope
from online.schemas.json_values import JSON, JSONObject

MAX_SUBSCRIBERS = 1_000
MAX_QUEUED = 1_000  # events kept for a subscriber that does not read


class FeedEvent(NamedTuple):
    """owner: the user or the caller that the event is about; None if it is about nobody. scope: what its readers need."""

    name: str
    data: JSONObject
    owner: str | None = None
    scope: Scope = "predict"


FeedQueue = asyncio.Queue[FeedEvent | None]


class EventFeed:
    """Sends events to every subscriber; None ends a subscription. Who may see which is left to the subscriber.

    share: sends an event to the other replicas, where there may be any.
    """

    def __init__(self) -> None:
        self._queues: set[FeedQueue] = set()
        self.share: Callable[[FeedEvent], None] = lambda event: None

    @property
    def has_subscribers(self) -> bool:
        """Whether anybody follows the events."""
        return bool(self._queues)

    def notify(self, name: str, **data: JSON) -> None:
        """Send one event. Never blocks: a subscriber whose queue is full is disconnected."""
        self.send(FeedEvent(name, data))

    def send(self, event: FeedEvent) -> None:
        """Send one event, which may have an owner."""
        for queue in list(self._queues):
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:  # the client stopped reading; it may connect again
                self._queues.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)

    def send_everywhere(self, event: FeedEvent) -> None:
        """Send one event that follows from nothing that the other replicas see, to their subscribers as well."""
        self.send(event)
        self.share(event)

    def notify_curators(self) -> None:
        """Tell the pages of curators that what waits for them may have changed."""
        self.send_everywhere(FeedEvent("inbox", {}, scope="curate"))

    def check_capacity(self) -> None:
        """Raise Overloaded when there are MAX_SUBSCRIBERS already."""
        if len(self._queues) >= MAX_SUBSCRIBERS:
            raise Overloaded(f"{MAX_SUBSCRIBERS} clients follow the events of this model; try again later")

    def subscribe(self) -> FeedQueue:
        """Return a queue of further events."""
        queue: FeedQueue = asyncio.Queue(MAX_QUEUED)
        self._queues.add(queue)
        return queue

    def unsubscribe(self, queue: FeedQueue) -> None:
        """Stop filling a queue."""
        self._queues.discard(queue)

    def close(self) -> None:
        """End every subscription."""
        for queue in self._queues:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(None)
