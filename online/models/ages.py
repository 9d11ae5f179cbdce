"""Forgetting by age: examples kept until they are too old, and then handed back to be subtracted.

    offset // bucket --> number of its bucket; the newest BUCKETS of them count
    an example that begins a newer bucket lets the oldest go, whole: what is in the sums is less than max_age old

Age is counted in events of the stream, for offsets are all the time a log has: its events carry no clock, and clocks of
several servers would disagree about which is older. What counts is so a function of the examples alone, whatever their
order and whenever they are learned. In buckets, because taking back the newest example must not bring back the oldest:
it would, only where it is alone in its bucket.
"""

from collections.abc import Iterable, Sequence
from itertools import count

from online.models import Example, Part, State, new_revision, packed, unpacked

BUCKETS = 8
PREFIX = "aged-"


class Ages:
    """Nothing is kept here where nothing is ever too old."""

    def __init__(self, max_age: int = 0) -> None:
        """max_age: in events; 0: without end. Raises ValueError where it is less than one a bucket."""
        if 0 < max_age < BUCKETS:
            raise ValueError(f"option 'max_age' is a number of events: {BUCKETS} or more, or 0 for all; not {max_age}")
        self.max_age, self.width = max_age, max_age // BUCKETS
        self.buckets: dict[int, dict[int, Example]] = {}  # by number, then by offset
        self.forgot = False
        self._parts: dict[int, Part] = {}  # of the buckets that have not changed since

    @property
    def exhausted(self) -> bool:
        """Whether what loses one more example may need some that were let go."""
        return self.forgot and len(self.buckets[max(self.buckets)]) <= 1 if self.buckets else self.forgot

    def examples(self) -> list[Example]:
        """All that count, by offset."""
        return [bucket[offset] for _, bucket in sorted(self.buckets.items()) for offset in sorted(bucket)]

    def counts(self) -> list[tuple[int, int]]:
        """(number, examples) of each bucket."""
        return [(number, len(bucket)) for number, bucket in sorted(self.buckets.items())]

    def too_old(self, examples: Iterable[Example]) -> list[Example]:
        """Those of them that were learned and do not count any more."""
        return [e for e in examples if self.width and e.offset not in self.buckets.get(e.offset // self.width, {})]

    def until_turn(self, examples: Sequence[Example]) -> int:
        """How many of them there are up to the first that begins a newer bucket, itself included."""
        newest = max(self.buckets, default=-1)
        turns = (n for n, e in zip(count(1), examples, strict=False) if self.width and e.offset // self.width > newest)
        return next(turns, len(examples))

    def add(self, examples: Iterable[Example]) -> list[Example]:
        """Keep them; gives those that are too old from now on, which may be among them."""
        for example in examples if self.width else ():
            self._bucket(example)[example.offset] = example
        last = max(self.buckets, default=0) - BUCKETS
        gone = [example for number in list(self.buckets) if number <= last for example in self._let_go(number)]
        self.forgot = self.forgot or bool(gone)
        return gone

    def remove(self, examples: Sequence[Example]) -> list[Example]:
        """Take them out; gives those that were still counted."""
        old = {example.offset for example in self.too_old(examples)}
        kept = [example for example in examples if example.offset not in old]
        for example in kept if self.width else ():
            del self._bucket(example)[example.offset]
        for number in [number for number, bucket in self.buckets.items() if not bucket]:
            del self.buckets[number]
        return kept

    def _bucket(self, example: Example) -> dict[int, Example]:
        """The one to change."""
        number = example.offset // self.width
        self._parts.pop(number, None)
        return self.buckets.setdefault(number, {})

    def _let_go(self, number: int) -> Iterable[Example]:
        self._parts.pop(number, None)
        return self.buckets.pop(number).values()

    def parts(self) -> dict[str, Part]:
        """A file a bucket: those of old ones never change again."""
        for number, bucket in sorted(self.buckets.items()):
            if number not in self._parts:
                rows = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for _, e in sorted(bucket.items())]
                self._parts[number] = Part({"examples": packed(rows)}, serving=False, revision=new_revision())
        return {f"{PREFIX}{number}": self._parts[number] for number in sorted(self.buckets)}

    def recall(self, state: State, forgot: bool) -> None:
        self.buckets, self._parts = {}, {}
        for name, part in state.items():
            if name.startswith(PREFIX):
                rows = unpacked(part.tensors["examples"])
                self.add(Example(o, kind, bytes.fromhex(f), label, reward=r) for o, kind, f, label, r in rows)
        self.forgot = forgot
