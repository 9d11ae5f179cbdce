"""How answers are counted against what came back, in the order it happened; a replay and a server count alike.

    event + what was answered --> judged --> Curve    of any length in bounded memory: sums over stretches that double
    event that says what is right --> Baselines       in width when there are too many

A label or a correction judges everybody; a 👍 says that what was answered is right, so that everybody is judged as well; a
👎 judges those who would have answered the same, and is silent about the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from online.schemas import Event

MOST = 512  # stretches; there are never fewer than half as many once there were


def tells_what_is_right(event: Event) -> bool:
    """A label, a correction, or a reward for what was right."""
    return event.kind in ("label", "correction") or (event.kind == "reward" and event.reward >= 0.5)


def judged(event: Event, answers: Mapping[str, str | None]) -> dict[str, float]:
    """1 where an answer is right by this event, 0 where it is wrong; without those it is silent about."""
    up = tells_what_is_right(event)
    return {
        name: float(up and choice == event.label) for name, choice in answers.items() if up or choice == event.label
    }


@dataclass(slots=True)
class Hits:
    judged: int = 0
    right: int = 0

    def add(self, right: bool) -> None:
        self.judged += 1
        self.right += right

    @property
    def share(self) -> float | None:
        return round(self.right / self.judged, 6) if self.judged else None


@dataclass(slots=True)
class Baselines:
    """Who knows labels alone: no-change, the last; majority, the most frequent so far, of equals the first to be so."""

    seen: Counter[str] = field(default_factory=Counter)
    last: str | None = None
    most: str | None = None

    def saw(self, label: str) -> None:
        self.seen[label] += 1
        if self.most is None or self.seen[label] > self.seen[self.most]:
            self.most = label
        self.last = label

    def guesses(self) -> dict[str, str | None]:
        return {"no_change": self.last, "majority": self.most}


@dataclass(slots=True)
class NumberBaselines:
    """The same for numbers: no-change, the last; and their mean."""

    count: int = 0
    last: float = 0.0
    mean: float = 0.0

    def saw(self, number: float) -> None:
        self.last = number
        self.count += 1
        self.mean += (number - self.mean) / self.count

    def guesses(self) -> dict[str, float]:
        return {"no_change": self.last, "mean": self.mean} if self.count else {}


@dataclass(slots=True)
class Stretch:
    """until: the number of its last example. counts and sums by predictor: of what was judged, of what it scored.

    offset: of the event that told its last example. began, ended: the times of the first and the last, as the log has
    them.
    """

    until: int
    counts: dict[str, int] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    offset: int = 0
    began: str | None = None
    ended: str | None = None

    def add(self, scores: Mapping[str, float], offset: int, at: str | None) -> None:
        self.offset, self.began, self.ended = offset, self.began or at, at or self.ended
        for name, value in scores.items():
            self.counts[name] = self.counts.get(name, 0) + 1
            self.sums[name] = self.sums.get(name, 0.0) + value

    def joined(self, later: "Stretch") -> "Stretch":
        names = self.counts.keys() | later.counts.keys()
        counts = {name: self.counts.get(name, 0) + later.counts.get(name, 0) for name in names}
        sums = {name: self.sums.get(name, 0.0) + later.sums.get(name, 0.0) for name in names}
        began, ended = self.began or later.began, later.ended or self.ended
        return Stretch(later.until, counts, sums, later.offset, began, ended)

    def mean(self, name: str) -> float | None:
        return self.sums[name] / self.counts[name] if self.counts.get(name) else None


@dataclass(slots=True)
class Curve:
    width: int = 1
    number: int = 0
    whole: list[Stretch] = field(default_factory=list)
    last: Stretch = field(default_factory=lambda: Stretch(0))

    def add(self, scores: Mapping[str, float], offset: int = 0, at: str | None = None) -> None:
        """scores: of each predictor that could be judged by this example."""
        self.number += 1
        self.last.until = self.number
        self.last.add(scores, offset, at)
        if self.number % self.width == 0:
            self.whole.append(self.last)
            self.last = Stretch(self.number)
            if len(self.whole) == MOST:
                self.whole = [a.joined(b) for a, b in zip(self.whole[::2], self.whole[1::2], strict=True)]
                self.width *= 2

    def stretches(self, most: int = MOST) -> Sequence[Stretch]:
        """All of it, in at most `most` stretches of equal width but for the last."""
        found = [*self.whole, *([self.last] if self.last.counts else [])]
        while len(found) > most:
            pairs = [found[place : place + 2] for place in range(0, len(found), 2)]
            found = [pair[0].joined(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
        return found
