"""The stream in Redis Streams: a copy of the SQL stream under the same offsets."""

from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from online.errors import Unavailable
from online.schemas.events import Entry, Event

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
    """The stream of one model in Redis. Entry ids are offsets, so that a rebuilt copy is the same stream."""

    def __init__(self, url: str, model: str, namespace: str = "online") -> None:
        self.url, self.model = url, model
        self.redis: Any = Redis.from_url(url, socket_connect_timeout=2, health_check_interval=30)
        self.key, self.ids = f"{namespace}:stream:{model}", f"{namespace}:ids:{model}"
        self._append = self.redis.register_script(APPEND)

    def append(self, event: Event, offset: int = 0) -> int:
        """offset: that the entry must have; 0 appends after the last. An entry that exists stays as it is."""
        arguments = [event.id, event.body(), event.features, offset]
        return int(self._call(self._append, keys=[self.key, self.ids], args=arguments))

    def read(self, after: int, count: int, block_ms: float = 0) -> list[Entry]:
        block = {"block": max(1, int(block_ms))} if block_ms > 0 else {}
        found = self._call(self.redis.xread, {self.key: f"{after}-1"}, count=count, **block)
        entries = (
            found[0][1] if isinstance(found, list) and found else found.get(self.key.encode(), [[]])[0] if found else []
        )
        return [parse_entry(name, fields) for name, fields in entries]

    def head(self) -> int:
        last = self._call(self.redis.xrevrange, self.key, count=1)
        return parse_offset(last[0][0]) if last else 0

    def is_complete(self) -> bool:
        """Whether no entry is missing: offsets have no gaps, so a complete stream is as long as its last offset."""
        return bool(self._call(self.redis.xlen, self.key) == self.head())

    def clear(self) -> None:
        self._call(self.redis.delete, self.key, self.ids)

    def clear_all(self) -> None:
        """Delete the copy, and copies of the same model that were left behind by other encoders."""
        self.clear()
        store = ":".join(self.key.split(":")[:2])  # online:<store>[:<encoder>]:stream:<model>
        for part in ("stream", "ids"):
            if keys := self._call(self._find_keys, f"{store}:*{part}:{self.model}"):
                self._call(self.redis.delete, *keys)

    def _find_keys(self, pattern: str) -> list[bytes]:
        return list(self.redis.scan_iter(match=pattern, count=1_000))

    def close(self) -> None:
        self.redis.close()

    def _call(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except RedisError as error:
            address = self.url.partition("?")[0].rpartition("@")[2].removeprefix("redis://")
            raise Unavailable(f"Redis at {address} does not answer: {error}") from error


def parse_offset(name: bytes) -> int:
    return int(name.partition(b"-")[0])


def parse_entry(name: bytes, fields: dict[bytes, bytes]) -> Entry:
    return Entry(parse_offset(name), Event.parse(fields[b"body"].decode(), fields[b"features"]))
