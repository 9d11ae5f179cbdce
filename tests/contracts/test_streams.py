"""The contract of a stream, tested on SQLite, Postgres and Redis Streams."""

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from online.io.wakeup import Wakeup
from online.schemas.events import Entry, Event, Target
from online.store import Store
from online.stream.contract import Stream
from online.stream.redis import RedisStream
from online.stream.relay import relay
from online.stream.sql import SqlStream

OpenStream = Callable[[str], Stream]


def sql_stream(store: Store, model: str, folder: Path) -> SqlStream:
    return SqlStream(store.durable_writer, store.reader, model, Wakeup(folder / "bells" / model))


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def open_stream(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStream]:
    """Open the stream of a model: open_stream(model). A second call for the same model opens the same stream."""
    if request.param == "redis":
        namespace, url = f"test-{uuid.uuid4().hex}", request.getfixturevalue("redis_url")
        yield lambda model: RedisStream(url, model, namespace)
        admin = RedisStream(url, "", namespace).redis
        for key in admin.scan_iter(f"{namespace}:*"):
            admin.delete(key)
        return
    url = (
        f"sqlite:///{tmp_path / 'online.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    store = Store(url)
    yield lambda model: sql_stream(store, model, tmp_path)
    store.close()


def event(id: str, **more: Any) -> Event:
    return Event(id, "label", features=b"\x00\xff" + id.encode(), label="yes", **more)


def test_an_empty_stream_has_head_zero_and_nothing_to_read(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    assert stream.head() == 0
    assert stream.read(0, 10) == []


def test_offsets_count_from_one_without_gaps(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    assert [stream.append(event(f"e{n}")) for n in range(5)] == [1, 2, 3, 4, 5]
    assert stream.head() == 5


def test_appending_a_known_id_changes_nothing(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    first = stream.append(event("a"))
    stream.append(event("b"))
    assert stream.append(event("a", text="something else")) == first
    assert [entry.event for entry in stream.read(0, 10)] == [event("a"), event("b")]


def test_reading_starts_after_the_offset_and_keeps_order_and_count(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    for n in range(10):
        stream.append(event(f"e{n}"))
    assert [entry.offset for entry in stream.read(3, 4)] == [4, 5, 6, 7]
    assert stream.read(10, 4) == []


def test_an_event_is_read_as_it_was_appended(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    correction = Event("x", "correction", b"\x80\x00\x7f", "r1", "Grüße 👍", 0.25, "r0")
    retraction = Event("x#retraction", "retraction", b"\x80\x00\x7f", target=Target(1, correction))
    stream.append(correction)
    stream.append(retraction)
    assert stream.read(0, 10) == [Entry(1, correction), Entry(2, retraction)]


def test_the_streams_of_two_models_are_independent(open_stream: OpenStream) -> None:
    one, other = open_stream("one"), open_stream("other")
    one.append(event("a"))
    assert other.head() == 0
    assert other.append(event("a")) == 1


def test_an_append_wakes_a_blocked_reader(open_stream: OpenStream) -> None:
    reader, writer = open_stream("m"), open_stream("m")
    entries: list[Entry] = []
    thread = threading.Thread(target=lambda: entries.extend(reader.read(0, 10, block_ms=20_000)))
    thread.start()
    writer.append(event("late"))
    thread.join(10)
    assert [entry.event.id for entry in entries] == ["late"]


def test_a_blocked_reader_returns_nothing_after_its_timeout(open_stream: OpenStream) -> None:
    assert open_stream("m").read(0, 10, block_ms=30) == []


def test_concurrent_appends_store_every_event_once(open_stream: OpenStream) -> None:
    streams = [open_stream("m") for _ in range(4)]

    def append_all(number: int) -> None:
        for n in range(25):
            streams[number].append(event(f"{number}-{n}"))
            streams[number].append(event(f"shared-{n}"))

    threads = [threading.Thread(target=append_all, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = streams[0].read(0, 1_000)
    assert [entry.offset for entry in entries] == list(range(1, 126))
    assert len({entry.event.id for entry in entries}) == 125


def test_a_redis_without_its_data_is_filled_with_the_same_stream(tmp_path: Path, redis_url: str) -> None:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    sql, copy = sql_stream(store, "m", tmp_path), RedisStream(redis_url, "m", f"test-{uuid.uuid4().hex}")
    for n in range(30):
        sql.append(event(f"e{n}"))
    assert relay(sql, copy, count=7) == 30
    assert relay(sql, copy) == 0
    copy.redis.delete(copy.key, copy.ids)
    sql.append(event("after the loss"))
    assert relay(sql, copy) == 31
    copy.redis.delete(copy.key)
    assert relay(sql, copy) == 31, "the ids alone are left"
    copy.redis.xdel(copy.key, "7-1")
    assert relay(sql, copy) == 31, "one entry in the middle is lost"
    assert copy.read(0, 100) == sql.read(0, 100)
    copy.redis.delete(copy.key, copy.ids)
    store.close()
