"""Copy the SQL stream to Redis: committed rows only, as often as it takes."""

from online.stream.redis import RedisStream
from online.stream.sql import SqlStream


def relay(source: SqlStream, copy: RedisStream, count: int = 1_000) -> int:
    """Copy the entries that the copy lacks; return their number. A copy that lost an entry is rebuilt."""
    if not copy.is_complete():
        copy.clear()
    copied, after = 0, copy.head()
    while entries := source.read(after, count):
        for entry in entries:
            copy.append(entry.event, entry.offset)
        copied, after = copied + len(entries), entries[-1].offset
    return copied
