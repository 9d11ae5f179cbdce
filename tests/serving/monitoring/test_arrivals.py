"""Subscribers hear that feedback has arrived, also of another process, without a version that has learned it."""

import asyncio
from pathlib import Path

import pytest

from online.io.wakeup import Wakeup
from online.serving.event_feed import EventFeed
from online.serving.monitoring import arrivals
from online.serving.monitoring.arrivals import ArrivalNotifier


class Log:
    """The head of a log, and how often it was read."""

    def __init__(self) -> None:
        self.head, self.reads = 5, 0

    def read_head(self) -> int:
        self.reads += 1
        return self.head


def test_a_growing_log_is_noticed_once_and_the_store_is_left_alone_without_subscribers(tmp_path: Path) -> None:
    log, feed = Log(), EventFeed()
    notifier = ArrivalNotifier("m", Wakeup(tmp_path), log.read_head, feed)
    asyncio.run(notifier.check())
    assert log.reads == 0
    queue = feed.subscribe()
    for log.head in (6, 6, 9):
        asyncio.run(notifier.check())
    events = [queue.get_nowait() for _ in range(queue.qsize())]
    assert [(event.name, event.data) for event in events if event] == [
        ("received", {"head": 6}),
        ("received", {"head": 9}),
    ]


def test_a_commit_of_any_process_wakes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "REST_S", 0.0)
    monkeypatch.setattr(arrivals, "POLL_S", 3_600.0)
    log, feed, wakeup = Log(), EventFeed(), Wakeup(tmp_path)

    async def follow() -> list[int]:
        queue = feed.subscribe()
        running = asyncio.create_task(ArrivalNotifier("m", wakeup, log.read_head, feed).run())
        heads = []
        for head in (5, 6, 7):
            log.head = head
            wakeup.notify()
            event = await asyncio.wait_for(queue.get(), 30)
            assert event is not None
            heads.append(event.data["head"])
        running.cancel()
        await asyncio.wait([running])
        return heads

    assert asyncio.run(follow()) == [5, 6, 7]
    assert not [*tmp_path.glob("*.bell")]


def test_it_ends_when_a_commit_comes_at_the_moment_of_its_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "REST_S", 0.0)
    woken: list[asyncio.Event] = []

    class Woken(asyncio.Event):
        def __init__(self) -> None:
            super().__init__()
            woken.append(self)

    async def end() -> bool:
        monkeypatch.setattr(asyncio, "Event", Woken)
        running = asyncio.create_task(ArrivalNotifier("m", Wakeup(tmp_path), Log().read_head, EventFeed()).run())
        while not woken or not woken[0]._waiters:
            await asyncio.sleep(0.01)
        woken[0].set()
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=2)
        return bool(done)

    assert asyncio.run(end())
