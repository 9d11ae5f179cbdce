"""Remembers the offsets of feedback that judged a served answer: one bit for each, so that the number of an answer is exact.

A curve is thinned, and says only at some offsets how many answers had been judged. A million offsets are 125 kB.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable

from online.schemas.json_values import JSONArray


class JudgedOffsets:
    """start, number: how many answers had been judged up to the offset from which the single ones are known."""

    def __init__(self, start: int = 0, number: int = 0) -> None:
        self.start, self.number = start, number
        self.bits = bytearray()

    def add(self, offset: int) -> None:
        """Note an offset, which is higher than `start`."""
        byte, bit = divmod(offset - self.start - 1, 8)
        if byte >= len(self.bits):
            self.bits.extend(bytes(byte + 1 - len(self.bits)))
        self.bits[byte] |= 1 << bit

    def count_until(self, offsets: Iterable[int]) -> dict[int, int]:
        """Return offset -> how many answers had been judged up to it. Offsets before `start` are left out."""
        found, number, counted = dict[int, int](), self.number, 0  # counted: bytes whose bits are in `number`
        for offset in sorted({offset for offset in offsets if offset >= self.start}):
            byte, rest = divmod(offset - self.start, 8)
            number += int.from_bytes(self.bits[counted:byte]).bit_count()
            counted = byte
            last = self.bits[byte] if byte < len(self.bits) else 0
            found[offset] = number + (last & ((1 << rest) - 1)).bit_count()
        return found

    def to_json(self) -> JSONArray:
        """Return the bits as JSON values."""
        return [self.start, self.number, b64encode(zlib.compress(self.bits)).decode()]

    @classmethod
    def from_json(cls, kept: JSONArray) -> "JudgedOffsets":
        """Return what `to_json` stored."""
        start, number, bits = kept
        judged = cls(start, number)
        judged.bits.extend(zlib.decompress(b64decode(bits)))
        return judged
