"""The contract of a stream, tested on SQLite, Postgres and Redis Streams."""

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from online.errors import BrokenCopy, LogReplaced, NewerRelease
from online.io.wakeup import Wakeup
from online.schemas.events import Event, chain_digest
from online.store import Store, events
from online.stream.contract import Stream
from online.stream.redis import RedisStream
from online.stream.relay import relay
from online.stream.sql import SqlStream
from online.stream.verified import VerifiedStream

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
    assert stream.read(0, 10) == [event("a"), event("b")]


def test_reading_starts_after_the_offset_and_keeps_order_and_count(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    for n in range(10):
        stream.append(event(f"e{n}"))
    assert [entry.offset for entry in stream.read(3, 4)] == [4, 5, 6, 7]
    assert stream.read(10, 4) == []


def test_a_page_is_bounded_in_bytes(open_stream: OpenStream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_stream("m")
    for n in range(5):
        stream.append(Event(f"e{n}", "sums", features=bytes(100_000)))
    monkeypatch.setattr(events, "MAX_PAGE_BYTES", 150_000)
    assert [entry.offset for entry in stream.read(0, 10)] == [1, 2]
    assert [entry.offset for entry in stream.read(2, 10, block_ms=1_000)] == [3, 4]
    assert [entry.offset for entry in stream.read(4, 10)] == [5]


def test_an_event_is_read_as_it_was_appended(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    correction = Event("x", "correction", b"\x80\x00\x7f", "r1", "Grüße 👍", 0.25, "r0")
    retraction = Event("x#retraction", "retraction", b"\x80\x00\x7f", target=correction.at(1))
    stream.append(correction)
    stream.append(retraction)
    assert [(entry.offset, entry) for entry in stream.read(0, 10)] == [(1, correction), (2, retraction)]


def test_every_entry_has_the_digest_of_the_log_up_to_it(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    for n in range(5):
        stream.append(event(f"e{n}", choice="no"))
    first, *others = stream.read(0, 10)
    digest = first.digest
    for entry in others:
        digest = chain_digest(digest, entry.offset, entry)
        assert entry.digest == digest


def test_a_reader_of_another_log_gets_no_entries(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    for n in range(5):
        stream.append(event(f"e{n}"))
    known = stream.read(0, 2)[-1].digest
    assert [entry.offset for entry in stream.read(2, 10, digest=known)] == [3, 4, 5]
    with pytest.raises(LogReplaced):
        stream.read(2, 10, digest=chain_digest(known, 2, event("another")))


def test_the_streams_of_two_models_are_independent(open_stream: OpenStream) -> None:
    one, other = open_stream("one"), open_stream("other")
    one.append(event("a"))
    assert other.head() == 0
    assert other.append(event("a")) == 1


def test_the_entries_end_before_one_that_a_newer_release_has_written(open_stream: OpenStream) -> None:
    stream = open_stream("m")
    for each in (event("known"), Event("later", "hologram")):  # type: ignore[arg-type]
        stream.append(each)
    assert [each.id for each in stream.read(0, 10)] == ["known"]
    with pytest.raises(NewerRelease, match="the event of the log at offset 2 has 'hologram'"):
        stream.read(1, 10)


def test_an_append_wakes_a_blocked_reader(open_stream: OpenStream) -> None:
    reader, writer = open_stream("m"), open_stream("m")
    entries: list[Event] = []
    thread = threading.Thread(target=lambda: entries.extend(reader.read(0, 10, block_ms=20_000)))
    thread.start()
    writer.append(event("late"))
    thread.join(10)
    assert [entry.id for entry in entries] == ["late"]


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
    assert len({entry.id for entry in entries}) == 125


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


Attack = Callable[[RedisStream], object]
GARBAGE = {"body": "{", "features": "?"}


def forge(copy: RedisStream) -> dict[str, bytes | str]:
    """An entry that reads like one of ours, signed with another secret."""
    forger = RedisStream(copy.url, copy.model, secret=b"a guess")
    forger.key = copy.key
    values = (b"", b"", event("bogus").body().encode(), b"")
    return {
        **dict(zip(("previous", "digest", "body", "features"), values, strict=True)),
        "mac": forger._sign(31, values),
    }


def move_an_entry(copy: RedisStream) -> None:
    """Write an entry of ours once more, at the next offset."""
    copy.redis.xadd(copy.key, copy.redis.xrange(copy.key, "30-1", "30-1")[0][1], "31-1")


def bring_back_an_older_log(copy: RedisStream) -> None:
    """Write an entry that we wrote at this offset, but in a log that is no longer there."""
    copy.copy(event("lost").at(31, chain_digest("older", 31, event("lost"))), "older")


ATTACKS: dict[str, Attack] = {
    "bogus": lambda copy: copy.redis.xadd(copy.key, forge(copy), "31-1"),
    "garbage": lambda copy: copy.redis.xadd(copy.key, GARBAGE, "31-1"),
    "garbage with the time as its id": lambda copy: copy.redis.xadd(copy.key, GARBAGE),
    "an entry moved": move_an_entry,
    "an older log": bring_back_an_older_log,
    "an entry lost": lambda copy: copy.redis.xdel(copy.key, "10-1"),
    "all entries trimmed": lambda copy: copy.redis.xtrim(copy.key, maxlen=0, approximate=False),
    "most entries trimmed": lambda copy: copy.redis.xtrim(copy.key, maxlen=3, approximate=False),
    "the newest entry deleted": lambda copy: copy.redis.xdel(copy.key, "30-1"),
    "the newest entries deleted": lambda copy: copy.redis.xdel(copy.key, "28-1", "29-1", "30-1"),
    "all entries deleted": lambda copy: copy.redis.xdel(copy.key, *(f"{n}-1" for n in range(1, 31))),
    "a higher last id": lambda copy: copy.redis.execute_command("XSETID", copy.key, "99-1"),
    "a string at the key": lambda copy: copy.redis.set(copy.key, "what?"),
    "a list at the key": lambda copy: copy.redis.delete(copy.key) and copy.redis.rpush(copy.key, "what?"),
    "a string at the ids": lambda copy: copy.redis.set(copy.ids, "what?"),
}


@pytest.fixture
def sql_with_copy(tmp_path: Path, redis_url: str) -> Iterator[tuple[SqlStream, RedisStream]]:
    """A log of 30 events, and its copy in Redis."""
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    sql = sql_stream(store, "m", tmp_path)
    copy = RedisStream(redis_url, "m", f"test-{uuid.uuid4().hex}", b"secret")
    for n in range(30):
        sql.append(event(f"e{n}"))
    assert relay(sql, copy) == 30
    yield sql, copy
    copy.clear()
    store.close()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_what_others_write_to_redis_is_not_read_and_is_repaired(
    sql_with_copy: tuple[SqlStream, RedisStream], attack: Attack
) -> None:
    sql, copy = sql_with_copy
    attack(copy)
    sql.append(event("e30"))
    stream, entries, log = VerifiedStream(copy, sql), list[Event](), sql.read(0, 100)
    while page := stream.read(len(entries), 10, digest=entries[-1].digest if entries else ""):
        entries += page
    assert entries == log[: len(entries)] and len(entries) >= 30
    reasons: list[str] = []
    relay(sql, copy, on_broken=reasons.append)
    assert len(reasons) == 1
    assert copy.read(0, 100) == log
    relay(sql, copy, on_broken=reasons.append)
    assert len(reasons) == 1


@pytest.mark.parametrize("attack", ["all entries trimmed", "the newest entry deleted"])
def test_a_learner_reads_from_the_store_what_the_copy_does_not_have(
    sql_with_copy: tuple[SqlStream, RedisStream], attack: str
) -> None:
    """Also while nobody repairs the copy, as when the server that relays is down."""
    sql, copy = sql_with_copy
    ATTACKS[attack](copy)
    sql.append(event("e30"))
    log, stream, entries = sql.read(0, 100), VerifiedStream(copy, sql), list[Event]()
    while page := stream.read(len(entries), 10, digest=entries[-1].digest if entries else ""):
        entries += page
    assert entries == log and len(log) == 31


def test_nothing_is_appended_to_a_stream_whose_end_was_deleted(sql_with_copy: tuple[SqlStream, RedisStream]) -> None:
    _, copy = sql_with_copy
    copy.redis.xdel(copy.key, "30-1")
    with pytest.raises(BrokenCopy, match="from offset 30 on were deleted"):
        copy.append(event("e30"))


def test_a_learner_says_when_it_reads_the_store_instead_of_redis(
    sql_with_copy: tuple[SqlStream, RedisStream], caplog: pytest.LogCaptureFixture
) -> None:
    sql, copy = sql_with_copy
    sql.append(event("e30"))
    copy.redis.xadd(copy.key, GARBAGE, "31-1")
    stream = VerifiedStream(copy, sql)
    for _ in range(3):
        assert [entry.id for entry in stream.read(30, 10)] == ["e30"]
    assert [record.message for record in caplog.records] == ["reading the store, not the copy in Redis"]


def test_entries_of_another_encoder_or_secret_do_not_count(sql_with_copy: tuple[SqlStream, RedisStream]) -> None:
    _, copy = sql_with_copy
    for key, secret in ((copy.key, b"rotated"), (f"{copy.key}:other", b"secret")):
        other = RedisStream(copy.url, "m", secret=secret)
        other.key = key
        if key != copy.key:
            copy.redis.copy(copy.key, key)
        with pytest.raises(BrokenCopy, match="did not write the entry 1-1"):
            other.read(0, 10)
    copy.redis.delete(f"{copy.key}:other")


def test_a_copy_of_another_log_is_replaced(
    sql_with_copy: tuple[SqlStream, RedisStream], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The same ids were appended to a new database: only the digests differ."""
    _, copy = sql_with_copy
    new = Store(f"sqlite:///{tmp_path / 'new.db'}")
    sql = sql_stream(new, "m", tmp_path)
    for n in range(31):
        sql.append(event(f"e{n}"))
    digest = copy.last()
    assert digest is not None
    with pytest.raises(LogReplaced):
        VerifiedStream(copy, sql).read(30, 10, digest=digest.digest)
    assert relay(sql, copy) == 31
    assert copy.read(0, 100) == sql.read(0, 100)
    new.close()
