"""Held-out feedback: at most 128 examples on which one version is compared with another.

    entry --> selected by a hash of its id? --> the newest of each class, the same number of every class

Whether an entry is selected is decided before anything is learned from it. It is learned all the
same, because a user expects each rating to have an effect. A proposed snapshot that has just learned
it has an advantage over the live version, so the comparison finds what a proposed snapshot broke, not what
it gained. Retracted feedback, and feedback of a retired class, is dropped, and so is what precedes a change that
the model follows, or the version that has followed it would look worse. Feedback of one caller that is not
trusted is at most MAX_OF_HOLDER of the examples, so that nobody decides alone what is published.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from online.models import StatePart, pack_json, unpack_json
from online.schemas.events import Event
from online.scoring.prequential import names_right_answer

ONE_IN = 8
MAX_COUNT = 128
MAX_OF_HOLDER = 8  # examples of one holder
MAX_BYTES = 262_144  # of features: wide inputs are fewer


@dataclass(frozen=True, slots=True)
class HeldOutExample:
    """An input, as features, and its right answer. holder: whose feedback it is, as in `Event`."""

    offset: int
    features: bytes
    label: str
    holder: int = 0


class HeldOutSet:
    """The examples, oldest first, at most one for each input."""

    def __init__(self) -> None:
        self.items: dict[bytes, HeldOutExample] = {}  # by their features
        self.by_label: dict[str, dict[bytes, HeldOutExample]] = {}  # the same, of each class

    def __iter__(self) -> Iterator[HeldOutExample]:
        return iter(self.items.values())

    def __len__(self) -> int:
        return len(self.items)

    def observe(self, event: Event) -> None:
        """Apply an event. New feedback on an input replaces what was held out for it."""
        if event.kind == "retraction" and event.target is not None:
            self.drop(event.target.offset)
        elif event.kind == "retire":
            self._filter(lambda item: item.label != event.label)
        elif event.kind in ("label", "correction", "reward"):
            if event.features in self.items:
                self._remove(self.items[event.features])
            if names_right_answer(event) and crc32(event.id.encode()) % ONE_IN == 0:
                self._add(HeldOutExample(event.offset, event.features, event.label, event.holder))

    def drop(self, offset: int) -> None:
        """Remove the example of an event that was retracted."""
        self._filter(lambda item: item.offset != offset)

    def drop_before(self, offset: int) -> None:
        """Drop what was held out before an offset, from which on other answers are right."""
        self._filter(lambda item: item.offset >= offset)

    def without(self, holder: int) -> "HeldOutSet":
        """Return the examples of all others. holder: as in `Event`; 0, which stands for all who are trusted, leaves out none."""
        others = HeldOutSet()
        for item in self:
            if not holder or item.holder != holder:
                others._insert(item)
        return others

    def _add(self, item: HeldOutExample) -> None:
        self._insert(item)
        of_holder = [each for each in self if each.holder == item.holder] if item.holder else []
        if len(of_holder) > MAX_OF_HOLDER:
            self._remove(of_holder[0])
        max_count = max(1, min(MAX_COUNT, MAX_BYTES // max(1, len(item.features))))
        while len(self.items) > max_count:
            self._drop_one()

    def _insert(self, item: HeldOutExample) -> None:
        self.items[item.features] = item
        self.by_label.setdefault(item.label, {})[item.features] = item

    def _remove(self, item: HeldOutExample) -> None:
        del self.items[item.features]
        of_class = self.by_label[item.label]
        del of_class[item.features]
        if not of_class:
            del self.by_label[item.label]

    def _drop_one(self) -> None:
        """Drop the oldest example of the largest class; among equals, of the class seen least recently."""
        size = max(map(len, self.by_label.values()))
        largest = [of_class for of_class in self.by_label.values() if len(of_class) == size]
        of_class = min(largest, key=lambda items: items[next(reversed(items))].offset)
        self._remove(next(iter(of_class.values())))

    def _filter(self, is_kept: Callable[[HeldOutExample], bool]) -> None:
        for item in [item for item in self if not is_kept(item)]:
            self._remove(item)

    # state

    def part(self) -> StatePart:
        """Return the examples as a part of a snapshot."""
        items = list(self)
        meta = [
            [item.offset, len(item.features), item.label, *([item.holder] if item.holder else [])] for item in items
        ]
        features = np.frombuffer(b"".join(item.features for item in items), np.uint8)
        return StatePart({"meta": pack_json(meta), "features": features}, serving=False)

    def restore(self, part: StatePart) -> None:
        """Adopt what `part` returned."""
        self.items, self.by_label = {}, {}
        start, features = 0, part.tensors["features"].tobytes()
        for offset, length, label, *holder in unpack_json(part.tensors["meta"]):
            self._insert(HeldOutExample(offset, features[start : start + length], label, *holder))
            start += length
