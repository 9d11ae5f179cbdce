"""What to learn from, in order: append, read after an offset.

    SqlStream     a table beside the feedback rows: appended in the same transaction, hence durable and gap-free
    RedisStream   the same entries under the same offsets; `relay` copies them there, as often as it takes

Offsets count from 1 within a model. Appending an event id that is in the log already changes nothing.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import Connection, Engine, UniqueConstraint, func, insert, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Field, SQLModel

from online.doorbell import Doorbell
from online.errors import Unavailable
from online.schemas import Entry, Event

T = TypeVar("T")

POLL_S = 0.25  # the longest a reader on another machine waits to see what nobody rang for


class Stream(Protocol):
    """One suite, tests/contracts/test_streams.py, runs over every implementation."""

    def append(self, event: Event) -> int:
        """The event's offset; that of the first one where its id is known."""

    def read(self, after: int, count: int, block_ms: float = 0) -> list[Entry]:
        """Up to `count` entries after an offset, in order; waits up to `block_ms` for the first."""

    def head(self) -> int:
        """The last offset; 0 while empty."""

    def close(self) -> None:
        """Let go of what it listens on."""


class EventRow(SQLModel, table=True):
    __tablename__ = "event"
    __table_args__ = (UniqueConstraint("model", "id"),)

    model: str = Field(primary_key=True)
    offset: int = Field(primary_key=True)
    id: str
    label: str = Field(index=True)  # what the event is about
    features: bytes
    body: str


EVENTS: Any = EventRow.__table__  # type: ignore[attr-defined]


def append_events(connection: Connection, model: str, events: Sequence[Event], new: bool = False) -> list[int]:
    """Append inside the caller's transaction; one offset per event, in order. new: the caller knows that all are."""
    if connection.dialect.name == "postgresql":  # commit order must be offset order: one appender a model at a time
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:model))"), {"model": f"online/{model}"})
    known = {} if new else offsets_of(connection, model, [event.id for event in events])
    last = head_of(connection, model)
    rows = []
    for event in events:
        if event.id not in known:
            last += 1
            known[event.id] = last
            rows.append(
                {
                    "model": model,
                    "offset": last,
                    "id": event.id,
                    "label": event.label,
                    "features": event.features,
                    "body": event.body(),
                }
            )
    if rows:
        connection.execute(insert(EVENTS), rows)
    return [known[event.id] for event in events]


def offsets_of(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, int]:
    found = connection.execute(
        select(EVENTS.c.id, EVENTS.c.offset).where(EVENTS.c.model == model, EVENTS.c.id.in_(ids))
    )
    return {id: offset for id, offset in found}  # noqa: C416 (rows are not pairs to mypy)


def read_events(connection: Connection, model: str, after: int, count: int) -> list[Entry]:
    query = select(EVENTS.c.offset, EVENTS.c.body, EVENTS.c.features).where(
        EVENTS.c.model == model, EVENTS.c.offset > after
    )
    rows = connection.execute(query.order_by(EVENTS.c.offset).limit(count))
    return [Entry(offset, Event.parse(body, features)) for offset, body, features in rows]


def head_of(connection: Connection, model: str) -> int:
    return connection.scalar(select(func.max(EVENTS.c.offset)).where(EVENTS.c.model == model)) or 0


class SqlStream:
    """The stream of one model in a SQL database; the truth, whatever else carries a copy."""

    def __init__(
        self,
        writer: Engine,
        reader: Engine,
        model: str,
        bell: Doorbell,
        check: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        """check: asked in the transaction of every read; what it raises is raised instead of giving entries."""
        self.writer, self.reader, self.model, self.bell, self.check = writer, reader, model, bell, check
        self._listener = bell.listen()

    def append(self, event: Event) -> int:
        try:
            with self.writer.begin() as connection:
                offset = append_events(connection, self.model, [event])[0]
        except SQLAlchemyError as error:
            raise Unavailable(f"the log of {self.model} took nothing: {type(error).__name__}") from error
        self.bell.ring()
        return offset

    def read(self, after: int, count: int, block_ms: float = 0) -> list[Entry]:
        until = time.monotonic() + block_ms / 1000
        while True:
            self._listener.clear()  # before looking: a ring for what we are about to miss stays in the pipe
            entries = self._read(after, count)
            left = until - time.monotonic()
            if entries or left <= 0:
                return entries
            self._listener.wait(min(left, POLL_S))

    def _read(self, after: int, count: int) -> list[Entry]:
        def checked(connection: Connection) -> list[Entry]:
            self.check(connection)
            return read_events(connection, self.model, after, count)

        return self._asked(checked)

    def head(self) -> int:
        return self._asked(lambda connection: head_of(connection, self.model))

    def _asked(self, question: Callable[[Connection], T]) -> T:
        try:
            with self.reader.connect() as connection:
                return question(connection)
        except SQLAlchemyError as error:
            raise Unavailable(f"the log of {self.model} does not answer: {type(error).__name__}") from error

    def close(self) -> None:
        self._listener.close()


APPEND = """
local known = redis.call('HGET', KEYS[2], ARGV[1])
if known and tonumber(ARGV[4]) == 0 then return tonumber(known) end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local head = last[1] and tonumber(string.match(last[1][1], '^%d+')) or 0
local offset = tonumber(ARGV[4])
if offset == 0 then offset = head + 1 elseif offset <= head then return offset end
redis.call('XADD', KEYS[1], string.format('%d-1', offset), 'body', ARGV[2], 'features', ARGV[3])
redis.call('HSET', KEYS[2], ARGV[1], offset)
return offset
"""


class RedisStream:
    """The stream of one model in Redis: entry ids are offsets, so a rebuilt copy is the same stream."""

    def __init__(self, url: str, model: str, namespace: str = "online") -> None:
        self.url, self.model = url, model
        self.redis: Any = Redis.from_url(url, socket_connect_timeout=2, health_check_interval=30)
        self.key, self.ids = f"{namespace}:stream:{model}", f"{namespace}:ids:{model}"
        self._append = self.redis.register_script(APPEND)

    def append(self, event: Event, offset: int = 0) -> int:
        """offset: the place it must have; 0 appends behind the last. An entry already there is left as it is."""
        arguments = [event.id, event.body(), event.features, offset]
        return int(self._asked(self._append, keys=[self.key, self.ids], args=arguments))

    def read(self, after: int, count: int, block_ms: float = 0) -> list[Entry]:
        block = {"block": max(1, int(block_ms))} if block_ms > 0 else {}
        found = self._asked(self.redis.xread, {self.key: f"{after}-1"}, count=count, **block)
        entries = (
            found[0][1] if isinstance(found, list) and found else found.get(self.key.encode(), [[]])[0] if found else []
        )
        return [entry_of(name, fields) for name, fields in entries]

    def head(self) -> int:
        last = self._asked(self.redis.xrevrange, self.key, count=1)
        return offset_of(last[0][0]) if last else 0

    def whole(self) -> bool:
        """Offsets have no gaps, so a stream that lost an entry is shorter than its last offset."""
        return bool(self._asked(self.redis.xlen, self.key) == self.head())

    def clear(self) -> None:
        self._asked(self.redis.delete, self.key, self.ids)

    def close(self) -> None:
        self.redis.close()

    def _asked(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except RedisError as error:
            address = self.url.partition("?")[0].rpartition("@")[2].removeprefix("redis://")
            raise Unavailable(f"Redis at {address} does not answer: {error}") from error


def offset_of(name: bytes) -> int:
    return int(name.partition(b"-")[0])


def entry_of(name: bytes, fields: dict[bytes, bytes]) -> Entry:
    return Entry(offset_of(name), Event.parse(fields[b"body"].decode(), fields[b"features"]))


def relay(source: SqlStream, copy: RedisStream, count: int = 1_000) -> int:
    """Copy what the copy lacks; gives how many entries. A copy that lost anything is made anew."""
    if not copy.whole():
        copy.clear()
    copied, after = 0, copy.head()
    while entries := source.read(after, count):
        for entry in entries:
            copy.append(entry.event, entry.offset)
        copied, after = copied + len(entries), entries[-1].offset
    return copied
