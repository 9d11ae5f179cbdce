"""The newest examples, as rows of int8, from which the sums of any recent stretch of the log can be computed.

    offset // CHUNK --> the part of a snapshot that holds the row: all but the newest parts stay as they are

What is held is a function of the set of examples alone: those with the highest offsets.
Shapes: B examples, N held rows, D features.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from online.models.contract import State, StatePart, Tensors, new_revision, pack_json, unpack_json
from online.models.statistics.windows import pad_row

CHUNK = 64
PREFIX = "recent-"


class RecentRows:
    """The newest `room` rows with their classes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.offsets: list[int] = []  # ascending
        self._held: dict[int, tuple[str, NDArray[np.int8]]] = {}
        self._parts: dict[int, StatePart] = {}  # parts of chunks that have not changed since

    def add(self, x_BD: NDArray[np.int8], labels: Sequence[str], offsets: Sequence[int]) -> None:
        """Store the newest rows; the oldest give way."""
        first = max(0, len(offsets) - self.room)
        rows_BD, held = x_BD[first:].copy(), self._held
        for row_D, label, offset in zip(rows_BD, labels[first:], offsets[first:], strict=True):
            if offset in held:
                self._remove(offset)
            if self.offsets and offset < self.offsets[-1]:
                insort(self.offsets, offset)
            else:
                self.offsets.append(offset)
            held[offset] = label, row_D
            self._parts.pop(offset // CHUNK, None)
        self.remove(self.offsets[: max(0, len(self.offsets) - self.room)])

    def remove(self, offsets: Sequence[int]) -> None:
        """Remove rows that were retracted."""
        for offset in offsets:
            self._remove(offset)

    def _remove(self, offset: int) -> None:
        if self._held.pop(offset, None) is not None:
            del self.offsets[bisect_left(self.offsets, offset)]
            self._parts.pop(offset // CHUNK, None)

    def after(self, offset: int) -> list[int]:
        """Return the offsets of the rows after an offset."""
        return self.offsets[bisect_right(self.offsets, offset) :]

    def read(self, offsets: Sequence[int], width: int) -> tuple[NDArray[np.int8], list[str]]:
        """Return rows int8 [N, D] and their classes."""
        rows = [pad_row(self._held[offset][1], width) for offset in offsets]
        return np.array(rows, np.int8).reshape(len(rows), width), [self._held[offset][0] for offset in offsets]

    def parts(self) -> dict[str, StatePart]:
        """Return one part per chunk."""
        chunks: dict[int, list[int]] = {}
        for offset in self.offsets:
            chunks.setdefault(offset // CHUNK, []).append(offset)
        self._parts = {
            number: self._parts.get(number) or StatePart(self._tensors(offsets), serving=False, revision=new_revision())
            for number, offsets in chunks.items()
        }
        return {f"{PREFIX}{number}": part for number, part in self._parts.items()}

    def _tensors(self, offsets: Sequence[int]) -> Tensors:
        rows_ND, labels = self.read(offsets, max(len(self._held[offset][1]) for offset in offsets))
        used = np.flatnonzero(rows_ND.any(0))  # how many columns were known when a row came depends on the batch
        rows_ND = np.ascontiguousarray(rows_ND[:, : used[-1] + 1 if len(used) else 0])
        return {"rows": rows_ND, "offsets": np.array(offsets, np.int64), "labels": pack_json(labels)}

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        self.offsets, self._held, self._parts = [], {}, {}
        self.extend(part.tensors for name, part in state.items() if name.startswith(PREFIX))

    def extend(self, chunks: Iterable[Tensors]) -> None:
        """Add the rows of other parts."""
        for tensors in chunks:
            self.add(tensors["rows"], unpack_json(tensors["labels"]), tensors["offsets"].tolist())
