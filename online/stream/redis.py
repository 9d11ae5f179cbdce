"""The stream in Redis Streams: a copy of the SQL stream under the same offsets.

    entry N-1: digest  <---- entry N: previous, digest, body, features, mac = HMAC(key, all of it and its place)

Anybody who reaches Redis can write to it, so nothing there is trusted: an entry counts only if its mac shows that
this service wrote it at this place, and if it follows the entry before it.
"""

import hmac
from collections.abc import Callable
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from online.errors import BrokenCopy, LogReplaced, NewerRelease, Unavailable
from online.schemas.events import Event, chain_digest
from online.store import events

# Adds an entry after the last one and returns its offset. Where an entry is there already: its offset if it is the same
# one, or -1. Otherwise the last offset, which is not the one before. ARGV[2] = '1': return the offset of a known id.
# -2: the stream has had the entry, or later ones: it keeps its highest id when its entries are deleted, and takes no lower one.
ADD = """
local known = redis.call('HGET', KEYS[2], ARGV[3])
if known and ARGV[2] == '1' then return tonumber(known) end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local head = last[1] and tonumber(string.match(last[1][1], '^%d+')) or 0
local offset = tonumber(ARGV[1])
local name = string.format('%d-1', offset)
if offset <= head then
  local found = redis.call('XRANGE', KEYS[1], name, name)
  local fields = found[1] and found[1][2] or {}
  for at = 1, #fields, 2 do
    if fields[at] == 'mac' and fields[at + 1] == ARGV[8] then return offset end
  end
  return -1
end
if offset > head + 1 then return head end
local added = redis.pcall('XADD', KEYS[1], name, 'previous', ARGV[4], 'digest', ARGV[5], 'body', ARGV[6], 'features', ARGV[7], 'mac', ARGV[8])
if type(added) == 'table' and added.err then
  if string.find(added.err, 'equal or smaller', 1, true) then return -2 end
  return added
end
redis.call('HSET', KEYS[2], ARGV[3], offset)
return offset
"""
DELETED = -2
ANSWER_S = 2.0  # after which Redis counts as unavailable
MAX_BLOCK_MS = 1_000.0  # that one command waits for an entry, well within the time for an answer
# Returns entries from a place on: at most ARGV[2], and none after those that hold more than ARGV[3] bytes.
PAGE = """
local entries, size, start = {}, 0, ARGV[1]
while #entries < tonumber(ARGV[2]) and size <= tonumber(ARGV[3]) do
  local entry = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', 1)[1]
  if not entry then break end
  for _, value in ipairs(entry[2]) do size = size + #value end
  table.insert(entries, entry)
  start = '(' .. entry[1]
end
return entries
"""
SIGNED = (b"previous", b"digest", b"body", b"features")


class RedisStream:
    """The stream of one model in Redis. Entry ids are offsets, so that a rebuilt copy is the same stream."""

    def __init__(self, url: str, model: str, namespace: str = "online", secret: bytes = b"") -> None:
        """secret: signs the entries. Those that were signed with another one do not count."""
        self.url, self.model, self.secret = url, model, secret
        self.redis: Any = Redis.from_url(
            url, socket_connect_timeout=ANSWER_S, socket_timeout=ANSWER_S, health_check_interval=30
        )
        self.key, self.ids = f"{namespace}:stream:{model}", f"{namespace}:ids:{model}"
        self._add, self._page = self.redis.register_script(ADD), self.redis.register_script(PAGE)

    def append(self, event: Event) -> int:
        """Append an event. Raises BrokenCopy if entries at its end were deleted."""
        while True:
            last = self.last()
            offset, previous = (last.offset + 1, last.digest) if last else (1, "")
            added = self._write(event.at(offset, chain_digest(previous, offset, event)), previous, unique=True)
            if added == DELETED:
                raise BrokenCopy(f"the entries of {self.key} from offset {offset} on were deleted")
            if 0 < added <= offset:  # otherwise another process appended at the same time
                return added

    def copy(self, entry: Event, previous: str) -> None:
        """Add an entry of the log at its offset; one that exists stays as it is.

        previous: the digest of the entry before. Raises BrokenCopy if something else is at the offset, or if entries from
        there on were deleted, and Unavailable if the entries before it are missing.
        """
        added = self._write(entry, previous, unique=False)
        if added == DELETED:
            raise BrokenCopy(f"the entries of {self.key} from offset {entry.offset} on were deleted")
        if added == -1:
            raise BrokenCopy(f"another entry is at offset {entry.offset} of {self.key}")
        if added != entry.offset:
            raise Unavailable(f"{self.key} ends at offset {added}, so it cannot continue with {entry.offset}")

    def _write(self, entry: Event, previous: str, unique: bool) -> int:
        values = (previous.encode(), entry.digest.encode(), entry.body().encode(), entry.features)
        arguments = [entry.offset, int(unique), entry.id, *values, self._sign(entry.offset, values)]
        return int(self._call(self._add, keys=[self.key, self.ids], args=arguments))

    def read(self, after: int, count: int, block_ms: float = 0, digest: str = "") -> list[Event]:
        """Return entries up to the first that does not count. Raises BrokenCopy or NewerRelease if that is the first of all."""
        rows = self._read_page(after, count)
        if not rows and block_ms > 0:
            self._call(
                self.redis.xread, {self.key: f"{after}-1"}, count=1, block=max(1, int(min(block_ms, MAX_BLOCK_MS)))
            )
            rows = self._read_page(after, count)
        entries: list[Event] = []
        for name, fields in rows:
            try:
                entry, previous = self._parse(name, dict(zip(fields[::2], fields[1::2], strict=True)))
                self._check_place(entry, previous, after, digest)
            except (BrokenCopy, LogReplaced, NewerRelease):
                if entries:
                    break
                raise
            entries.append(entry)
            after, digest = entry.offset, entry.digest
        return entries

    def _read_page(self, after: int, count: int) -> list[tuple[bytes, list[bytes]]]:
        """Return names and fields of the entries after an offset; few of them are in memory at once if they are large."""
        arguments = [f"({after}-1", count, events.MAX_PAGE_BYTES]
        page: list[tuple[bytes, list[bytes]]] = self._call(self._page, keys=[self.key], args=arguments)
        return page

    def _check_place(self, entry: Event, previous: str, after: int, digest: str) -> None:
        if entry.offset != after + 1:
            raise BrokenCopy(f"{self.key} continues with offset {entry.offset}, expected {after + 1}")
        if digest and previous != digest:
            raise LogReplaced(f"the entry at offset {entry.offset} of {self.key} follows another log")

    def _parse(self, name: bytes, fields: dict[bytes, bytes]) -> tuple[Event, str]:
        """Return the entry, and the digest of the one before it. Raises BrokenCopy."""
        offset = parse_offset(name)
        values = tuple(fields.get(field, b"") for field in SIGNED)
        mac = self._sign(offset, values).encode()
        if name != b"%d-1" % offset or not hmac.compare_digest(mac, fields.get(b"mac", b"")):
            raise BrokenCopy(f"this service did not write the entry {name.decode()} of {self.key}")
        previous, digest, body, features = values
        return Event.parse(body.decode(), features, offset, digest.decode()), previous.decode()

    def _sign(self, offset: int, values: tuple[bytes, ...]) -> str:
        """Return the signature of an entry and its place, so that a copy under another key or offset does not count."""
        mac = hmac.new(self.secret, digestmod="sha256")
        for value in (self.key.encode(), str(offset).encode(), *values):
            mac.update(len(value).to_bytes(8))
            mac.update(value)
        return mac.hexdigest()

    def head(self) -> int:
        """Return the last offset of the copy; 0 for none."""
        last = self._call(self.redis.xrevrange, self.key, count=1)
        return parse_offset(last[0][0]) if last else 0

    def last(self) -> Event | None:
        """Return the last entry; None while the stream is empty.

        Raises BrokenCopy if it does not count, or if entries are missing: offsets have no gaps, so a complete stream
        is as long as its last offset.
        """
        both = self.redis.pipeline(transaction=True).xrevrange(self.key, count=1).xlen(self.key)
        rows, length = self._call(both.execute)
        if not rows:
            return None
        entry, _ = self._parse(*rows[0])
        if length != entry.offset:
            raise BrokenCopy(f"{self.key} has {length} entries instead of {entry.offset}")
        return entry

    def clear(self) -> None:
        """Delete the copy."""
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
        """Close the connection."""
        self.redis.close()

    def _call(self, call: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        try:
            return call(*args, **kwargs)
        except RedisError as error:
            if isinstance(error, ResponseError) and "WRONGTYPE" in str(error):
                raise BrokenCopy(f"{self.key} is not a stream, or {self.ids} is not a hash") from error
            address = self.url.partition("?")[0].rpartition("@")[2].removeprefix("redis://")
            raise Unavailable(f"Redis at {address} does not answer: {error}") from error


def parse_offset(name: bytes) -> int:
    """Return the offset in the name of an entry."""
    return int(name.partition(b"-")[0])
