"""Scores answers by the feedback that follows them, in order; a replay and a server count alike.

    event + answers ------------> judge_answers --> Curve   any number of examples in bounded memory
    event with the right answer -------------> Baselines

A label or a correction judges every answer. A positive reward says that what was answered is right, and so judges
every answer as well; a negative one judges only answers that are the same, and says nothing about the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from online.schemas.events import Event, is_positive

MAX_SEGMENTS = 512  # of a curve; it keeps at least half as many once it has reached them


def names_right_answer(event: Event) -> bool:
    """Return whether an event gives the right answer: a label, a correction, or a positive reward."""
    return event.kind in ("label", "correction") or (event.kind == "reward" and is_positive(event.reward))


def judge_answers(event: Event, answers: Mapping[str, str | None]) -> dict[str, float]:
    """Return 1 for each answer that is right by this event and 0 for each wrong one.

    answers: by predictor. Answers that the event says nothing about are left out.
    """
    names_right = names_right_answer(event)
    return {
        name: float(names_right and choice == event.label)
        for name, choice in answers.items()
        if names_right or choice == event.label
    }


@dataclass(slots=True)
class HitCounts:
    """The numbers of judged and of right answers."""

    judged: int = 0
    right: int = 0

    def add(self, right: bool) -> None:
        """Count a judged answer."""
        self.judged += 1
        self.right += right

    def add_all(self, scores: Sequence[float | None]) -> None:
        """scores: 1 for a right answer, 0 for a wrong one, None for one that was not judged."""
        judged = [score for score in scores if score is not None]
        self.judged += len(judged)
        self.right += judged.count(1.0)

    @property
    def share(self) -> float | None:
        """The share of right answers; None of none."""
        return round(self.right / self.judged, 6) if self.judged else None


@dataclass(slots=True)
class Baselines:
    """Predictors that know the labels so far and no input.

    no_change: the last label. majority: the most frequent one; of equally frequent ones, the first to become so.
    """

    seen: Counter[str] = field(default_factory=Counter)
    last: str | None = None
    most: str | None = None

    def observe(self, label: str) -> None:
        """Count a right answer."""
        self.seen[label] += 1
        if self.most is None or self.seen[label] > self.seen[self.most]:
            self.most = label
        self.last = label

    def guesses(self) -> dict[str, str | None]:
        """Return the last class and the most frequent one."""
        return {"no_change": self.last, "majority": self.most}


@dataclass(slots=True)
class NumberBaselines:
    """Predictors that know the numbers so far and no input: the last number, and their mean."""

    count: int = 0
    last: float = 0.0
    mean: float = 0.0

    def observe(self, number: float) -> None:
        """Count a right number."""
        self.last = number
        self.count += 1
        self.mean += (number - self.mean) / self.count

    def guesses(self) -> dict[str, float]:
        """Return the last number and the mean."""
        return {"no_change": self.last, "mean": self.mean} if self.count else {}


@dataclass(slots=True)
class CurveSegment:
    """Consecutive examples of a curve.

    until: the number of the last example. counts, sums: by predictor, the judged examples and the sum of their scores.
    offset: of the event that judged the last example. began, ended: times of the first and the last, as in the log.
    """

    until: int
    counts: dict[str, int] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    offset: int = 0
    began: str | None = None
    ended: str | None = None

    def add(self, scores: Mapping[str, float], offset: int, at: str | None) -> None:
        """Add the scores of one example."""
        self.offset, self.began, self.ended = offset, self.began or at, at or self.ended
        for name, value in scores.items():
            self.counts[name] = self.counts.get(name, 0) + 1
            self.sums[name] = self.sums.get(name, 0.0) + value

    def add_all(self, scores: Mapping[str, Sequence[float | None]], offset: int, times: Sequence[str | None]) -> None:
        """Like `add` for consecutive examples. offset: of the last one. Sums are added in their order."""
        self.offset, given = offset, [at for at in times if at]
        if given:
            self.began, self.ended = self.began or given[0], given[-1]
        for name, values in scores.items():
            judged = [value for value in values if value is not None]
            if judged:
                self.counts[name] = self.counts.get(name, 0) + len(judged)
                *_, self.sums[name] = accumulate(judged, initial=self.sums.get(name, 0.0))

    def merge(self, later: "CurveSegment") -> "CurveSegment":
        """Return the segment of both."""
        names = self.counts.keys() | later.counts.keys()
        counts = {name: self.counts.get(name, 0) + later.counts.get(name, 0) for name in names}
        sums = {name: self.sums.get(name, 0.0) + later.sums.get(name, 0.0) for name in names}
        began, ended = self.began or later.began, later.ended or self.ended
        return CurveSegment(later.until, counts, sums, later.offset, began, ended)

    def mean(self, name: str) -> float | None:
        """Return the mean score of a predictor in this segment."""
        return self.sums[name] / self.counts[name] if self.counts.get(name) else None


@dataclass(slots=True)
class Curve:
    """Scores along the examples, as sums over segments of equal width.

    width: examples in a segment; it doubles when there are too many segments. number: examples so far.
    whole: complete segments; last: the one that is being filled.
    """

    width: int = 1
    number: int = 0
    whole: list[CurveSegment] = field(default_factory=list)
    last: CurveSegment = field(default_factory=lambda: CurveSegment(0))

    def add(self, scores: Mapping[str, float], offset: int = 0, at: str | None = None) -> None:
        """scores: of each predictor that this example judges."""
        self.number += 1
        self.last.add(scores, offset, at)
        self._close_segment()

    def add_all(
        self, scores: Mapping[str, Sequence[float | None]], offsets: Sequence[int], times: Sequence[str | None]
    ) -> None:
        """Add examples in order. scores: of each predictor, None for an example that does not judge it."""
        start = 0
        while start < len(offsets):
            stop = min(len(offsets), start + self.width - self.number % self.width)
            self.number += stop - start
            part = {name: values[start:stop] for name, values in scores.items()}
            self.last.add_all(part, offsets[stop - 1], times[start:stop])
            self._close_segment()
            start = stop

    def _close_segment(self) -> None:
        """Note the last example, and begin another segment if it fills the present one."""
        self.last.until = self.number
        if self.number % self.width == 0:
            self.whole.append(self.last)
            self.last = CurveSegment(self.number)
            if len(self.whole) == MAX_SEGMENTS:
                self.whole = [a.merge(b) for a, b in zip(self.whole[::2], self.whole[1::2], strict=True)]
                self.width *= 2

    def segments(self, most: int = MAX_SEGMENTS) -> Sequence[CurveSegment]:
        """Return the whole curve in at most `most` segments; all but the last are of equal width."""
        found = [*self.whole, *([self.last] if self.last.counts else [])]
        while len(found) > most:
            pairs = [found[place : place + 2] for place in range(0, len(found), 2)]
            found = [pair[0].merge(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
        return found
