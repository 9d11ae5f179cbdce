"""The events of a model reach every subscriber, and a subscriber can neither block nor outgrow the service."""

import pytest

from online.errors import Overloaded
from online.serving.event_feed import MAX_QUEUED, MAX_SUBSCRIBERS, EventFeed


def test_a_subscriber_that_does_not_read_is_disconnected() -> None:
    feed = EventFeed()
    queue = feed.subscribe()
    for number in range(MAX_QUEUED + 1):
        feed.notify("published", version=number)
    assert not feed.has_subscribers
    received = [queue.get_nowait() for _ in range(queue.qsize())]
    assert received[-1] is None
    assert len(received) == MAX_QUEUED


def test_the_number_of_subscribers_is_bounded() -> None:
    feed = EventFeed()
    queues = [feed.subscribe() for _ in range(MAX_SUBSCRIBERS)]
    with pytest.raises(Overloaded, match="1000 clients follow the events of this model"):
        feed.check_capacity()
    feed.unsubscribe(queues.pop())
    feed.check_capacity()
