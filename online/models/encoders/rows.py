"""Encoders of vectors and tables: an instance becomes the bytes that are logged.

    [numbers]       -> VectorEncoder -> float64 [N]  --Columns--> int8 [D]
    {name: value}   -> TableEncoder  -> JSON         --Columns--> int8 [D]

`columns.Columns` reads these bytes when a model learns or predicts.
"""

import json
import math
import struct
from collections.abc import Sequence
from itertools import chain

import numpy as np

from online.models.encoders.values import Value, format_value
from online.schemas.json_values import JSON

TO_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class ParsedNumbers(list[float]):
    """An instance that its parser has found to consist of numbers alone. text: its JSON."""

    __slots__ = ("text",)

    def __init__(self, values: list[float], text: bytes) -> None:
        super().__init__(values)
        self.text = text


class VectorEncoder:
    """A list of `size` finite numbers -> float64 bytes. size 0 accepts any length, for a replay that
    has read no instance yet.
    """

    is_slow = False
    quick_chars = 0

    def __init__(self, size: int) -> None:
        self.size = size
        self.epoch = f"vector-{size}"
        self._packing = struct.Struct(f"={size}d")

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Return the vectors as float64 bytes. Raises BadInput that names the instance."""
        together = self._encode_together(instances) if len(instances) > 1 else None
        return together or [self._vector(instance, place) for place, instance in enumerate(instances)]

    def _encode_together(self, instances: Sequence[JSON]) -> list[bytes] | None:
        """Encode lists of one length in a fraction of the time; None if there is anything else, or a fault."""
        if (
            not {list, ParsedNumbers}.issuperset(map(type, instances))
            or not self.size
            or {*map(len, instances)} != {self.size}
        ):
            return None
        if not {int, float}.issuperset(map(type, chain.from_iterable(instances))):
            return None
        try:
            data = struct.pack(f"={self.size * len(instances)}d", *chain.from_iterable(instances))
        except (OverflowError, struct.error):
            return None
        width = 8 * self.size
        finite = np.isfinite(np.frombuffer(data)).all()
        return [data[start : start + width] for start in range(0, len(data), width)] if finite else None

    def pack(self, rows: Sequence[list[float]]) -> list[bytes] | None:
        """Encode rows that are known to be finite numbers; None if one has another length."""
        if not self.size or any(len(row) != self.size for row in rows):
            return None
        pack = self._packing.pack
        return [pack(*row) for row in rows]

    def _vector(self, instance: object, place: int) -> bytes:
        if not isinstance(instance, list):
            raise ValueError(f"instance {place} must be a list of {self.size} numbers, not {format_value(instance)}")
        if self.size and len(instance) != self.size:
            raise ValueError(f"instance {place} has {len(instance)} numbers; this model takes {self.size}")
        if type(instance) is not ParsedNumbers and not {int, float}.issuperset(map(type, instance)):
            at = next(at for at, value in enumerate(instance) if type(value) not in (int, float))
            raise ValueError(f"instance {place} must be numbers; at {at} it has {format_value(instance[at])}")
        try:
            vector = struct.pack(f"={len(instance)}d", *instance)
        except (OverflowError, struct.error):
            raise ValueError(f"instance {place} has a number too large for a float64") from None
        finite = np.isfinite(np.frombuffer(vector, np.float64))
        if not finite.all():
            at = int(np.flatnonzero(~finite)[0])
            raise ValueError(f"instance {place} has {instance[at]} at {at}; numbers must be finite")
        return vector


class TableEncoder:
    """A dict of numbers, texts and booleans -> canonical JSON bytes, without missing values (null).

    A list is read as a dict of its indices.
    """

    epoch = "table"
    is_slow = False
    quick_chars = 0

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Return the rows as canonical JSON. Raises BadInput that names the instance."""
        return [self._row(instance, place) for place, instance in enumerate(instances)]

    def _row(self, instance: object, place: int) -> bytes:
        if isinstance(instance, list):
            instance = {str(at): value for at, value in enumerate(instance)}
        if not isinstance(instance, dict):
            raise ValueError(f"instance {place} must be an object of features, not {format_value(instance)}")
        row = {str(name): self._value(value, place, name) for name, value in instance.items() if value is not None}
        return TO_JSON(row).encode()

    def _value(self, value: object, place: int, name: object) -> Value:
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and len(value) <= 1_000:
            return value
        try:
            if isinstance(value, (int, float)) and math.isfinite(value):
                return float(value)
        except OverflowError:
            pass
        raise ValueError(
            f"instance {place} has {format_value(value)} as {format_value(name)}; use a finite number, a short text or a boolean"
        )
