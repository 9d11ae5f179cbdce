"""Keeps the features of texts on disk, so that a replay of the same texts does not encode them again.

    text --sha256--> FeatureCache --> int8 [384]      one file for each encoder: records of equal length

A record is the hash of a text, its features, and a checksum of both. The texts themselves are not kept. A record that
is damaged or cut off is ignored, and the text encoded and appended again. Beyond `max_records` the oldest are dropped.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from online.models.encoders.minilm import WIDTH, write_atomically

HASH_BYTES, CHECKSUM_BYTES = 32, 4
RECORD_BYTES = HASH_BYTES + WIDTH + CHECKSUM_BYTES
MAX_RECORDS = 250_000  # 105 MB


class FeatureCache:
    """The features of one encoder's texts. A folder that cannot be read or written is as good as an empty one."""

    def __init__(self, folder: Path, epoch: str, max_records: int = MAX_RECORDS) -> None:
        """epoch: of the encoder, which names the file."""
        self.path, self.max_records = folder / f"texts-{epoch}.features", max_records
        self.known: dict[bytes, bytes] = {}
        data = self._read()
        self.known.update(parse_records(data))
        if len(self.known) * RECORD_BYTES != len(data) or len(self.known) > max_records:
            self._rewrite()

    def find(self, text: str) -> bytes | None:
        return self.known.get(hash_text(text))

    def keep(self, features: Mapping[str, bytes]) -> None:
        """Append the features of texts."""
        added = {hash_text(text): data for text, data in features.items()}
        self.known.update(added)
        if len(self.known) > self.max_records:
            self._rewrite()
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", buffering=0) as file:  # one write: other processes append, too
                file.write(b"".join(build_record(*each) for each in added.items()))

    def _read(self) -> bytes:
        with suppress(OSError):
            return self.path.read_bytes()
        return b""

    def _rewrite(self) -> None:
        """Write the newest records, at most half of what may be kept if it was too much."""
        most = self.max_records if len(self.known) <= self.max_records else self.max_records // 2
        self.known = dict(islice(self.known.items(), max(0, len(self.known) - most), None))
        with suppress(OSError):
            write_atomically(self.path, b"".join(build_record(*each) for each in self.known.items()))


def hash_text(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def build_record(key: bytes, features: bytes) -> bytes:
    body = key + features
    return body + zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little")


def parse_records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records that are whole."""
    for start in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
        record = data[start : start + RECORD_BYTES]
        body = record[:-CHECKSUM_BYTES]
        if zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little") == record[-CHECKSUM_BYTES:]:
            yield body[:HASH_BYTES], body[HASH_BYTES:]
