"""The feedback, 128 pieces at most, by which one version is compared with another.

    entry --> its id says whether it belongs here --> the newest of each label, as many of one as of another

What is here was chosen by a hash of its id, before anything was learned from it. It is learned all the same: whoever clicks
a thumb sees it work. A candidate that has just learned it has the advantage over a version that has not, so this finds
what a candidate broke, not what it learned. What is taken back, or belongs to what was retired, is dropped.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from online.models import Part, packed, unpacked
from online.prequential import tells_what_is_right
from online.schemas import Entry

ONE_IN = 8
MOST = 128
MOST_BYTES = 262_144  # of features: wide inputs are fewer


@dataclass(frozen=True, slots=True)
class Item:
    """An input (features), and what was said to be right for it."""

    offset: int
    features: bytes
    label: str


class HeldOut:
    def __init__(self) -> None:
        self.items: dict[bytes, Item] = {}  # by their features, oldest first

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items.values())

    def __len__(self) -> int:
        return len(self.items)

    def observe(self, entry: Entry) -> None:
        """What was said of the same input before no longer counts."""
        event = entry.event
        if event.kind == "retraction" and event.target is not None:
            self.drop(event.target.offset)
        elif event.kind == "retire":
            self._keep(lambda item: item.label != event.label)
        elif event.kind in ("label", "correction", "reward"):
            self.items.pop(event.features, None)
            if tells_what_is_right(event) and crc32(event.id.encode()) % ONE_IN == 0:
                self._add(Item(entry.offset, event.features, event.label))

    def drop(self, offset: int) -> None:
        self._keep(lambda item: item.offset != offset)

    def _add(self, item: Item) -> None:
        self.items[item.features] = item
        most = max(1, min(MOST, MOST_BYTES // max(1, len(item.features))))
        while len(self.items) > most:
            self._drop_one()

    def _drop_one(self) -> None:
        """The oldest one of the label that has most; of equals, of the one that was heard of least lately."""
        counts = Counter(item.label for item in self)
        newest = {item.label: item.offset for item in self}
        fullest = min(counts, key=lambda label: (-counts[label], newest[label]))
        del self.items[next(item.features for item in self if item.label == fullest)]

    def _keep(self, wanted: Callable[[Item], bool]) -> None:
        self.items = {item.features: item for item in self if wanted(item)}

    # state

    def part(self) -> Part:
        items = list(self)
        told = [[item.offset, len(item.features), item.label] for item in items]
        features = np.frombuffer(b"".join(item.features for item in items), np.uint8)
        return Part({"meta": packed(told), "features": features}, serving=False)

    def restore(self, part: Part) -> None:
        self.items, start, features = {}, 0, part.tensors["features"].tobytes()
        for offset, length, label in unpacked(part.tensors["meta"]):
            item = Item(offset, features[start : start + length], label)
            self.items[item.features] = item
            start += length
