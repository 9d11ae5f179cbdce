"""Forgetting by age: examples are stored until they are too old, and then returned to be subtracted.

    offset // width --> number of its bucket; the newest BUCKETS buckets count
    an example that opens a newer bucket expires the oldest one as a whole

So every counted example is younger than max_age. Age is measured in events of the stream, because a
log has no clock, and the clocks of several servers would disagree about order. What counts is thus a
function of the examples alone, in any order and at any time. Whole buckets expire, because the
retraction of the newest example must not bring back the oldest; it does so only if that example is
alone in its bucket.
"""

from collections.abc import Iterable, Sequence
from itertools import count

from online.models.contract import Example, State, StatePart, new_revision, pack_json, unpack_json

BUCKETS = 8
PREFIX = "aged-"


class ExpiryBuckets:
    """The buckets of examples that count. Stores nothing if examples never expire."""

    def __init__(self, max_age: int = 0) -> None:
        """max_age: in events; 0: unlimited. Raises ValueError if it is less than one event per bucket."""
        if 0 < max_age < BUCKETS:
            raise ValueError(f"option 'max_age' must be 0 (unlimited) or at least {BUCKETS} events, not {max_age}")
        self.max_age, self.width = max_age, max_age // BUCKETS
        self.buckets: dict[int, dict[int, Example]] = {}  # by number, then by offset
        self.forgot = False
        self._parts: dict[int, StatePart] = {}  # parts of buckets that have not changed since

    @property
    def exhausted(self) -> bool:
        """Whether losing one more example may require some that have expired."""
        return self.forgot and len(self.buckets[max(self.buckets)]) <= 1 if self.buckets else self.forgot

    def examples(self) -> list[Example]:
        """Return all examples that count, by offset."""
        return [bucket[offset] for _, bucket in sorted(self.buckets.items()) for offset in sorted(bucket)]

    def counts(self) -> list[tuple[int, int]]:
        """(number, count of examples) of each bucket."""
        return [(number, len(bucket)) for number, bucket in sorted(self.buckets.items())]

    def select_expired(self, examples: Iterable[Example]) -> list[Example]:
        """Return those of the given examples that were learned and have expired."""
        return [e for e in examples if self.width and e.offset not in self.buckets.get(e.offset // self.width, {})]

    def count_until_new_bucket(self, examples: Sequence[Example]) -> int:
        """Return the number of examples up to and including the first that opens a newer bucket."""
        newest = max(self.buckets, default=-1)
        turns = (n for n, e in zip(count(1), examples, strict=False) if self.width and e.offset // self.width > newest)
        return next(turns, len(examples))

    def add(self, examples: Iterable[Example]) -> list[Example]:
        """Store examples and return those that expire now, which may be among them."""
        for example in examples if self.width else ():
            self._bucket(example)[example.offset] = example
        last = max(self.buckets, default=0) - BUCKETS
        gone = [example for number in list(self.buckets) if number <= last for example in self._expire(number)]
        self.forgot = self.forgot or bool(gone)
        return gone

    def remove(self, examples: Sequence[Example]) -> list[Example]:
        """Remove examples and return those that still counted."""
        old = {example.offset for example in self.select_expired(examples)}
        kept = [example for example in examples if example.offset not in old]
        for example in kept if self.width else ():
            del self._bucket(example)[example.offset]
        for number in [number for number, bucket in self.buckets.items() if not bucket]:
            del self.buckets[number]
        return kept

    def _bucket(self, example: Example) -> dict[int, Example]:
        """Return the bucket of an example, about to be changed."""
        number = example.offset // self.width
        self._parts.pop(number, None)
        return self.buckets.setdefault(number, {})

    def _expire(self, number: int) -> Iterable[Example]:
        self._parts.pop(number, None)
        return self.buckets.pop(number).values()

    def parts(self) -> dict[str, StatePart]:
        """Return one part per bucket; the parts of old buckets never change again."""
        for number, bucket in sorted(self.buckets.items()):
            if number not in self._parts:
                rows = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for _, e in sorted(bucket.items())]
                self._parts[number] = StatePart({"examples": pack_json(rows)}, serving=False, revision=new_revision())
        return {f"{PREFIX}{number}": self._parts[number] for number in sorted(self.buckets)}

    def restore(self, state: State, forgot: bool) -> None:
        """Load the buckets of a state. forgot: whether any example had expired."""
        self.buckets, self._parts = {}, {}
        for name, part in state.items():
            if name.startswith(PREFIX):
                rows = unpack_json(part.tensors["examples"])
                self.add(Example(o, kind, bytes.fromhex(f), label, reward=r) for o, kind, f, label, r in rows)
        self.forgot = forgot
