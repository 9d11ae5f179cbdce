"""The packing of integers: each in as many bits as the sum of all clients' needs, so that no sum wraps around.

    int64 [L] --modulo 2^bits--> uint64 [L] --masks are added--> packed bits --sum of all, unmasked--> int64 [L]

A layout consists of segments, because counts, sums and products have different bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from online_federated.secure_aggregation.errors import AggregationFailed

MAX_BITS = 62
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class IntegerSegment:
    """`length` integers of `bits` bits each; 0 bits if every integer is 0."""

    length: int
    bits: int

    @property
    def byte_count(self) -> int:
        """The packed length."""
        return -(-self.length * self.bits // 8)


def fit_segment(length: int, largest: int) -> IntegerSegment:
    """Return the segment for integers whose sum over all clients has at most the absolute value `largest`."""
    bits = largest.bit_length() + 1 if largest else 0  # one for the sign
    if bits > MAX_BITS:
        raise AggregationFailed(f"sums up to {largest:,} need more than {MAX_BITS} bits")
    return IntegerSegment(length, bits)


@dataclass(frozen=True, slots=True)
class SumLayout:
    """The integers of a sum, in segments of different widths."""

    segments: tuple[IntegerSegment, ...]

    @property
    def length(self) -> int:
        """The number of integers, L."""
        return sum(segment.length for segment in self.segments)

    @property
    def byte_count(self) -> int:
        """The packed length."""
        return sum(segment.byte_count for segment in self.segments)

    def encode(self, values_L: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Residues. Raises AggregationFailed for values that do not fit."""
        if values_L.shape != (self.length,):
            raise AggregationFailed(f"{values_L.shape} values, where the layout has {self.length}")
        for segment, part in zip(self.segments, self._split(values_L), strict=True):
            half = 2.0 ** (segment.bits - 1)  # 0.5 without bits
            if part.size and (int(part.max()) >= half or int(part.min()) < -half):
                raise AggregationFailed(f"a value needs more than {segment.bits} bits")
        return self.reduce(values_L.astype(np.uint64))

    def reduce(self, numbers_L: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the numbers modulo 2^bits of their segments."""
        return numbers_L & self._masks()

    def decode(self, residues_L: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the signed integers of residues."""
        parts = []
        for segment, part in zip(self.segments, self._split(residues_L), strict=True):
            signed = part.astype(np.int64)
            negative = signed >> max(segment.bits - 1, 0)
            parts.append(signed - (negative << segment.bits))
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def pack(self, residues_L: NDArray[np.uint64]) -> bytes:
        """Return the bits of all residues, one after the other, the lowest bit first; each segment begins a byte."""
        return b"".join(
            pack_bits(part, segment.bits) for segment, part in zip(self.segments, self._split(residues_L), strict=True)
        )

    def unpack(self, data: bytes) -> NDArray[np.uint64]:
        """Return the inverse of `pack`. Raises AggregationFailed for data of another length."""
        if len(data) != self.byte_count:
            raise AggregationFailed(f"{len(data)} bytes of values, where the layout has {self.byte_count}")
        starts = [0, *accumulate(segment.byte_count for segment in self.segments)]
        parts = [unpack_bits(data[at:], segment) for at, segment in zip(starts, self.segments, strict=False)]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint64)

    def _masks(self) -> NDArray[np.uint64]:
        lengths = [segment.length for segment in self.segments]
        return np.repeat(np.array([(1 << segment.bits) - 1 for segment in self.segments], np.uint64), lengths)

    def _split(self, values_L: NDArray[T]) -> Sequence[NDArray[T]]:
        return np.split(values_L, [*accumulate(segment.length for segment in self.segments)][:-1])


def pack_bits(residues_L: NDArray[np.uint64], bits: int) -> bytes:
    """Pack integers of a few bits each."""
    own_LB = np.unpackbits(residues_L.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    return np.packbits(own_LB[:, :bits], bitorder="little").tobytes()


def unpack_bits(data: bytes, segment: IntegerSegment) -> NDArray[np.uint64]:
    """Unpack what `pack_bits` packed."""
    packed = np.frombuffer(data, np.uint8, segment.byte_count)
    own = np.unpackbits(packed, count=segment.length * segment.bits, bitorder="little")
    wide_LB = np.zeros((segment.length, 64), np.uint8)
    wide_LB[:, : segment.bits] = own.reshape(segment.length, segment.bits)
    return np.packbits(wide_LB, axis=1, bitorder="little").view("<u8").reshape(-1).astype(np.uint64)
