"""A search for bytes in everything that a service keeps: the state folder, the database, Redis."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from redis import Redis
from sqlalchemy import create_engine, inspect, text

Needles = Mapping[str, bytes]


def find_in_folder(folder: Path, needles: Needles, pattern: str = "**/*") -> set[str]:
    """Return the names of the needles in the files of a folder that match a pattern, or in their names."""
    found = set()
    for path in sorted(folder.glob(pattern)):
        name = str(path.relative_to(folder)).encode()
        data = path.read_bytes() if path.is_file() else b""
        found |= {what for what, needle in needles.items() if needle in data or needle in name}
    return found


def find_in_database(url: str, needles: Needles) -> set[str]:
    """Return the names of the needles in the rows of all tables."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            data = b"\n".join(
                as_bytes(value)
                for table in tables
                for row in connection.execute(text(f'SELECT * FROM "{table}"'))
                for value in row
            )
    finally:
        engine.dispose()
    return {what for what, needle in needles.items() if needle in data}


def find_in_redis(url: str, pattern: str, needles: Needles) -> set[str]:
    redis: Any = Redis.from_url(url)
    data = b"\n".join(dump_key(redis, key) for key in redis.scan_iter(pattern))
    return {what for what, needle in needles.items() if needle in data}


def dump_key(redis: Any, key: bytes) -> bytes:
    if redis.type(key) == b"stream":
        return repr(key).encode() + b"".join(b"".join(fields.values()) for _, fields in redis.xrange(key))
    return repr(key).encode() + b"".join(as_bytes(value) for pair in redis.hgetall(key).items() for value in pair)


def as_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()


def needles_of(words: Mapping[str, str], features: Mapping[str, bytes]) -> dict[str, bytes]:
    """The words as UTF-8, and the features as they are, in hex and in base64 (which begins at the same place)."""
    return dict(iterate_needles(words, features))


def iterate_needles(words: Mapping[str, str], features: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    yield from ((what, word.encode()) for what, word in words.items())
    for what, data in features.items():
        yield what, data
        yield f"{what} in hex", data.hex().encode()
        yield f"{what} in base64", base64.b64encode(data)[:-4]
