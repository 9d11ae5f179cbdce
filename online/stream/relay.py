"""Copy the SQL stream to Redis: committed rows only, as often as it takes."""

from collections.abc import Callable

from online.errors import BrokenCopy, LogReplaced
from online.stream.redis import RedisStream
from online.stream.sql import SqlStream


def relay(
    source: SqlStream, copy: RedisStream, count: int = 1_000, on_broken: Callable[[str], None] = lambda reason: None
) -> int:
    """Copy the entries that the copy lacks; return their number.

    A copy that lost an entry, that somebody else wrote to, or that is of another log is written again.
    on_broken: called with the reason before that.
    """
    try:
        return copy_missing(source, copy, count)
    except (BrokenCopy, LogReplaced) as error:
        on_broken(str(error))
        copy.clear()
        return copy_missing(source, copy, count)


def copy_missing(source: SqlStream, copy: RedisStream, count: int) -> int:
    """Copy the entries that are missing. Raises BrokenCopy or LogReplaced if the copy is not the beginning of the source."""
    last = copy.last()
    copied, after, digest = 0, last.offset if last else 0, last.digest if last else ""
    while entries := source.read(after, count, digest=digest):
        for entry in entries:
            copy.copy(entry, digest)
            after, digest = entry.offset, entry.digest
        copied += len(entries)
    return copied
