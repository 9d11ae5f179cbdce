"""Counts of the present minute that all replicas have in common, in Redis.

    what a process has counted since the last time --one script--> what all have counted, and the clock of Redis

One hash has the counts of one minute; it is deleted with the first count of the next one. The minute is that of the clock of Redis, so
that replicas whose clocks differ count in the same one. Redis sees no name of a user and no address: each is replaced by a keyed digest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from online.errors import Unavailable

WINDOW_S = 60
TIMEOUT_S = 1.0
DIGEST_BYTES = 12
Counts = tuple[int, ...]

# ARGV[1]: the minute to which the counts belong; of another minute, nothing is added. ARGV[2]: counts of a name. Then each name with
# its counts. Returns the present minute, the time in microseconds, and the sums of each name; none for counts of another minute.
ADD = """
local time = redis.call('TIME')
local window, width = math.floor(tonumber(time[1]) / 60), tonumber(ARGV[2])
local found = {window, tonumber(time[1]) * 1000000 + tonumber(time[2])}
if tonumber(ARGV[1]) ~= window then return found end
if redis.call('HGET', KEYS[1], 'minute') ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'minute', ARGV[1])
  redis.call('EXPIRE', KEYS[1], 120)
end
for at = 3, #ARGV, width + 1 do
  for place = 1, width do
    local count, field = tonumber(ARGV[at + place]), ARGV[at] .. place
    if count ~= 0 then
      table.insert(found, redis.call('HINCRBY', KEYS[1], field, count))
    else
      table.insert(found, tonumber(redis.call('HGET', KEYS[1], field) or 0))
    end
  end
end
return found
"""


@dataclass(frozen=True, slots=True)
class SharedMinute:
    """The present minute of Redis. at_s: its time. sums: of all replicas, by name; empty for counts of another minute."""

    window: int
    at_s: float
    sums: Mapping[str, Counts]


class SharedCounts:
    """Adds counts of this process to those of all. For threads: each call waits for Redis."""

    def __init__(self, url: str, key: str, secret: bytes) -> None:
        """key: of the hash. secret: for the digests of names."""
        self.key, self.secret, self.address = key, secret[:64], url.partition("?")[0].rpartition("@")[2]
        self.redis: Any = Redis.from_url(url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S)
        self._add = self.redis.register_script(ADD)

    def add(self, window: int, counts: Mapping[str, Counts], width: int) -> SharedMinute:
        """Add counts of a minute, `width` for each name; of a minute that is over nothing is added. Raises Unavailable."""
        arguments: list[int | bytes] = [window, width]
        for name, values in counts.items():
            arguments += [self._digest(name), *values]
        try:
            found: Sequence[int] = self._add(keys=[self.key], args=arguments)
        except RedisError as error:
            raise Unavailable(f"Redis at {self.address} does not answer: {error}") from error
        current, microseconds, *sums = found
        of_name = {name: tuple(sums[at * width : (at + 1) * width]) for at, name in enumerate(counts)} if sums else {}
        return SharedMinute(current, microseconds / 1e6, of_name)

    def close(self) -> None:
        """Close the connections."""
        self.redis.close()

    def _digest(self, name: str) -> bytes:
        return blake2b(name.encode(), digest_size=DIGEST_BYTES, key=self.secret).digest()
