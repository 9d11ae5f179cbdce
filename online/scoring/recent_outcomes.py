"""The newest judged answers of a model, in bounded memory.

judged answer --> ring of the newest KEPT --leaves it--> blocks of BLOCK --> forgotten after MAX_BLOCKS
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from online.schemas.json_values import JSON, JSONArray
from online.scoring.prequential import CurveSegment

KEPT, BLOCK, MAX_BLOCKS = 1_000, 100, 100  # newest outcomes; outcomes of an older block; blocks
HEADLINE = 100  # "the last 100"


class AnswerOutcome(NamedTuple):
    """One judged answer. known_until: what the version that answered had learned.

    served: 1 for a right answer, 0 for a wrong one; for numbers the absolute error. last, usual: the same of the naive
    guessers, None where the feedback does not judge them.
    """

    offset: int
    known_until: int
    served: float
    last: float | None = None
    usual: float | None = None


class OutcomeBlock(NamedTuple):
    """Outcomes that are counted together. hits: right answers; for numbers, answers nearer than the naive guesser."""

    offset: int
    known_until: int
    size: int
    hits: float
    total: float

    @property
    def rate(self) -> float:
        """The share of hits."""
        return self.hits / self.size


@dataclass(frozen=True, slots=True)
class OutcomeSpan:
    """Consecutive judged answers. mean: their accuracy, or their mean absolute error. offset: of the last one."""

    count: int
    mean: float
    offset: int = 0


class RecentOutcomes:
    """The newest outcomes of one model, oldest first. numbers: whether `served` is an error."""

    def __init__(self, numbers: bool) -> None:
        self.numbers = numbers
        self.ring: deque[AnswerOutcome] = deque()
        self.blocks: deque[OutcomeBlock] = deque(maxlen=MAX_BLOCKS)

    @property
    def guessers(self) -> tuple[str, str]:
        """The names of the naive guessers."""
        return ("no_change", "mean" if self.numbers else "majority")

    def add(self, outcome: AnswerOutcome) -> None:
        """Add an outcome; old ones are merged into blocks."""
        self.ring.append(outcome)
        if len(self.ring) >= KEPT + BLOCK:
            self.blocks.append(self.count([self.ring.popleft() for _ in range(BLOCK)]))

    def answered_by(self, learned_until: int) -> "RecentOutcomes":
        """Return those of versions that had learned no more than an offset: what is known of a version after a roll back to it."""
        found = RecentOutcomes(self.numbers)
        found.ring.extend(each for each in self.ring if each.known_until <= learned_until)
        found.blocks.extend(each for each in self.blocks if each.known_until <= learned_until)
        return found

    def after_roll_back(self, learned_until: int, since: int) -> "RecentOutcomes":
        """Return those of the version that was rolled back to, and of later ones, as far back as single outcomes are kept.

        learned_until: of that version. since: what the newest version had learned. Late feedback for the versions in between says
        nothing about the roll back.
        """
        found = RecentOutcomes(self.numbers)
        found.ring.extend(
            each for each in self.ring if each.offset > since and not learned_until < each.known_until <= since
        )
        return found

    def __len__(self) -> int:
        return len(self.ring) + BLOCK * len(self.blocks)

    def count(self, outcomes: Sequence[AnswerOutcome]) -> OutcomeBlock:
        """Merge outcomes into a block."""
        newest = outcomes[-1]
        hits = sum(map(self._is_hit, outcomes))
        known_until = max(each.known_until for each in outcomes)
        return OutcomeBlock(newest.offset, known_until, len(outcomes), hits, sum(each.served for each in outcomes))

    def _is_hit(self, outcome: AnswerOutcome) -> bool:
        if not self.numbers:
            return outcome.served == 1.0
        return outcome.usual is not None and outcome.served < outcome.usual

    def cells(self, width: int) -> list[OutcomeBlock]:
        """Return all outcomes, those of the ring counted by `width`: without the oldest that do not fill a cell."""
        ring = list(self.ring)
        starts = range(len(ring) % width, len(ring), width)
        return [*self.blocks, *(self.count(ring[start : start + width]) for start in starts)]

    def newest(self, count: int = HEADLINE) -> OutcomeSpan | None:
        """Return the summary of the newest outcomes; None of none."""
        return summarize(list(self.ring)[-count:])

    def newest_after(self, offset: int) -> OutcomeSpan | None:
        """Return the last 100, without those up to an offset."""
        return summarize([each for each in list(self.ring)[-HEADLINE:] if each.offset > offset])

    def since(self, offset: int) -> OutcomeSpan | None:
        """Return those after an offset, as far back as single outcomes are kept."""
        return summarize([each for each in self.ring if each.offset > offset])

    def newest_guesses(self, count: int = HEADLINE) -> dict[str, OutcomeSpan]:
        """Return the accuracies, or mean errors, of the naive guessers on those of the newest questions that judge them."""
        newest = list(self.ring)[-count:]
        columns = ([each.last for each in newest], [each.usual for each in newest])
        guesses = {
            name: [each._replace(served=score) for each, score in zip(newest, column, strict=True) if score is not None]
            for name, column in zip(self.guessers, columns, strict=True)
        }
        return {name: found for name, judged in guesses.items() if (found := summarize(judged))}

    def trend(self, width: int = HEADLINE // 2) -> list[OutcomeSpan]:
        """Return all outcomes of the ring in groups of `width`, oldest first; the oldest group has what is left over as well."""
        ring = list(self.ring)
        starts = [0, *range(width + len(ring) % width, len(ring), width)]
        stops = [*starts[1:], len(ring)]
        groups = zip(starts, stops, strict=True)
        return [found for start, stop in groups if (found := summarize(ring[start:stop]))]

    def suspect_from(self, begin: int) -> int:
        """Return the offset from which everything that was learned is as suspect as the answers that are worse since `begin`.

        It follows the newest outcome before `begin` that is known.
        """
        offsets = [*(block.offset for block in self.blocks), *(outcome.offset for outcome in self.ring)]
        last = max((each for each in offsets if each < begin), default=None)
        return begin if last is None else last + 1

    # state

    def to_json(self) -> JSONArray:
        """Return the outcomes as JSON values."""
        return [[list(each) for each in self.blocks], [list(each) for each in self.ring]]

    @classmethod
    def from_json(cls, numbers: bool, kept: Sequence[JSON]) -> "RecentOutcomes":
        """Return the outcomes that `to_json` stored."""
        found = cls(numbers)
        if kept:
            found.blocks.extend(OutcomeBlock(*each) for each in kept[0])
            found.ring.extend(AnswerOutcome(*each) for each in kept[1])
        return found


def summarize(outcomes: Sequence[AnswerOutcome]) -> OutcomeSpan | None:
    """Return the summary of outcomes; None of none."""
    if not outcomes:
        return None
    return OutcomeSpan(len(outcomes), sum(each.served for each in outcomes) / len(outcomes), outcomes[-1].offset)


def summarize_blocks(blocks: Sequence[OutcomeBlock]) -> OutcomeSpan:
    """Return the summary of blocks."""
    count = sum(each.size for each in blocks)
    return OutcomeSpan(count, sum(each.total for each in blocks) / count, blocks[-1].offset)


def count_curve(curve: Iterable[CurveSegment], predictor: str) -> list[OutcomeBlock]:
    """Return the answers of a predictor of classes along a learning curve, counted by its segments."""
    known = [each for each in curve if each.counts.get(predictor)]
    return [
        OutcomeBlock(each.offset, 0, each.counts[predictor], each.sums[predictor], each.sums[predictor])
        for each in known
    ]
