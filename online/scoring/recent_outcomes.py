"""The newest judged answers of a model, and whether they are worse than those before.

    judged answer --> ring of the newest KEPT --leaves it--> blocks of BLOCK --> forgotten after MAX_BLOCKS

    last 50 | 100 | 200 | 500 | 1,000  against every stretch before --> Fall, if chance does not explain it
    served answer against each naive guesser, on the same questions --> Lead, likewise
    last 100 against the 100 | 200 | 500 right before               --> Decline, if chance hardly explains it
    those since a roll back against the stretch before the fall     --> find_recovery, if they are about as good

The first two look again and again at all stretches of a stream, so their limits are far beyond those of a single test: the
logarithm of the likelihood ratio must exceed LIMIT. A stream that stands still raises nothing. A decline is a notice, and no
reason to act: its limit is that of a single look, and about two looks in a hundred at a stream that stands still find one.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

KEPT, BLOCK, MAX_BLOCKS = 1_000, 100, 100  # newest outcomes; outcomes of an older block; blocks
CELL = 10  # outcomes of the ring that are counted together in the search for a change
WINDOWS = (50, 100, 200, 500, 1_000)  # how many of the newest outcomes are compared with those before
STRETCHES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)  # how many outcomes before may be compared
LIMIT = 16.0  # natural logarithm of a likelihood ratio, as of the drift detectors (Cusum)
LEAST_FALL = 0.05  # of the accuracy; a smaller one is no reason to act
LEAD_LIMIT, LEAST_LEAD = 12.0, 0.02
DECLINE_LIMIT = 3.0  # as LIMIT, of a single look
DECLINE_STRETCHES = (100, 200, 500)  # how many outcomes right before the last 100 are compared with them
HEADLINE = 100  # "the last 100"
LEAST_RECOVERED = 30  # outcomes since a roll back from which it is judged whether they are as good as before


class Outcome(NamedTuple):
    """One judged answer. known_until: what the version that answered had learned.

    served: 1 for a right answer, 0 for a wrong one; for numbers the absolute error. last, usual: the same of the naive
    guessers, None where the feedback does not judge them.
    """

    offset: int
    known_until: int
    served: float
    last: float | None = None
    usual: float | None = None


class Block(NamedTuple):
    """Outcomes that are counted together. hits: right answers; for numbers, answers nearer than the naive guesser."""

    offset: int
    known_until: int
    size: int
    hits: int
    total: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive judged answers. mean: their accuracy, or their mean absolute error. offset: of the last one."""

    count: int
    mean: float
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Fall:
    """The newest answers are worse than a stretch before. since: the offset of the last event before the change.

    after: the newest 100, or fewer, also where the fall is found in a longer window: these are the answers of now.
    """

    since: int
    before: Stretch
    after: Stretch


@dataclass(frozen=True, slots=True)
class Decline:
    """The last 100 answers are worse than those right before, more than chance easily explains; too little for a `Fall`."""

    before: Stretch
    after: Stretch


@dataclass(frozen=True, slots=True)
class Lead:
    """A naive guesser is better than the model on the same `count` questions. guesser: as in the tallies of the curve."""

    guesser: str
    count: int
    model: float
    other: float


class RecentOutcomes:
    """The newest outcomes of one model, oldest first. numbers: whether `served` is an error."""

    def __init__(self, numbers: bool) -> None:
        self.numbers = numbers
        self.ring: deque[Outcome] = deque()
        self.blocks: deque[Block] = deque(maxlen=MAX_BLOCKS)

    @property
    def guessers(self) -> tuple[str, str]:
        return ("no_change", "mean" if self.numbers else "majority")

    def add(self, outcome: Outcome) -> None:
        self.ring.append(outcome)
        if len(self.ring) >= KEPT + BLOCK:
            self.blocks.append(self._count([self.ring.popleft() for _ in range(BLOCK)]))

    def answered_by(self, learned_until: int) -> "RecentOutcomes":
        """Those of versions that had learned no more than an offset: what is known of a version after a roll back to it."""
        found = RecentOutcomes(self.numbers)
        found.ring.extend(each for each in self.ring if each.known_until <= learned_until)
        found.blocks.extend(each for each in self.blocks if each.known_until <= learned_until)
        return found

    def after_roll_back(self, learned_until: int, since: int) -> "RecentOutcomes":
        """Those of the version that was rolled back to, and of later ones, as far back as single outcomes are kept.

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

    def _count(self, outcomes: Sequence[Outcome]) -> Block:
        newest = outcomes[-1]
        hits = sum(map(self._is_hit, outcomes))
        known_until = max(each.known_until for each in outcomes)
        return Block(newest.offset, known_until, len(outcomes), hits, sum(each.served for each in outcomes))

    def _is_hit(self, outcome: Outcome) -> bool:
        if not self.numbers:
            return outcome.served == 1.0
        return outcome.usual is not None and outcome.served < outcome.usual

    # figures

    def newest(self, count: int = HEADLINE) -> Stretch | None:
        return summarize(list(self.ring)[-count:])

    def newest_after(self, offset: int) -> Stretch | None:
        """The last 100, without those up to an offset."""
        return summarize([each for each in list(self.ring)[-HEADLINE:] if each.offset > offset])

    def since(self, offset: int) -> Stretch | None:
        """Those after an offset, as far back as single outcomes are kept."""
        return summarize([each for each in self.ring if each.offset > offset])

    def between(self, after: int, until: int) -> Stretch | None:
        """Those after an offset up to another; of older blocks, those that end there."""
        units = [*self.blocks, *map(self._count, ([each] for each in self.ring))]
        found = [each for each in units if after < each.offset <= until]
        count = sum(each.size for each in found)
        return Stretch(count, sum(each.total for each in found) / count, found[-1].offset) if found else None

    def newest_guesses(self, count: int = HEADLINE) -> dict[str, Stretch]:
        """The accuracies, or mean errors, of the naive guessers on those of the newest questions that judge them."""
        newest = list(self.ring)[-count:]
        columns = {
            self.guessers[0]: [(each.offset, each.last) for each in newest if each.last is not None],
            self.guessers[1]: [(each.offset, each.usual) for each in newest if each.usual is not None],
        }
        return {
            name: Stretch(len(judged), sum(score for _, score in judged) / len(judged), judged[-1][0])
            for name, judged in columns.items()
            if judged
        }

    def trend(self, width: int = HEADLINE // 2) -> list[Stretch]:
        """All outcomes of the ring in groups of `width`, oldest first; the oldest group has what is left over as well."""
        ring = list(self.ring)
        starts = [0, *range(width + len(ring) % width, len(ring), width)]
        stops = [*starts[1:], len(ring)]
        groups = zip(starts, stops, strict=True)
        return [found for start, stop in groups if (found := summarize(ring[start:stop]))]

    def last_before(self, offset: int) -> int | None:
        """The offset of the newest outcome before an offset; None if none is known."""
        offsets = [*(block.offset for block in self.blocks), *(outcome.offset for outcome in self.ring)]
        return max((each for each in offsets if each < offset), default=None)

    def suspect_from(self, begin: int) -> int:
        """The offset from which everything that was learned is as suspect as the answers that are worse since `begin`."""
        last = self.last_before(begin)
        return begin if last is None else last + 1

    # whether the newest are worse than those before

    def find_fall(self) -> Fall | None:
        """The fall of the last 100, or else of the fewest newest outcomes, that chance does not explain."""
        ring = list(self.ring)
        cells = Cells(
            [*self.blocks, *(self._count(ring[at : at + CELL]) for at in range(len(ring) % CELL, len(ring), CELL))]
        )
        falls = {}
        for window in WINDOWS:
            if window <= len(ring) and (found := self._find_fall(cells, ring, window)) is not None:
                falls[window] = found
        return falls.get(HEADLINE) or next(iter(falls.values()), None)

    def _find_fall(self, cells: "Cells", ring: Sequence[Outcome], window: int) -> Fall | None:
        newest, last = self._count(ring[-window:]), self._count(ring[-min(window, HEADLINE) :])
        found = cells.find_better_stretch(newest)
        if found is None:
            return None
        start, stop = found
        before, after = cells.summarize(start, stop), summarize(ring[-min(window, HEADLINE) :])
        assert after is not None
        has_recovered = last.hits / last.size > (cells.rate(start, stop) + newest.hits / newest.size) / 2
        is_better = after.mean <= before.mean if self.numbers else after.mean >= before.mean
        if has_recovered or is_better:
            return None
        return Fall(cells.find_change(start, stop), before, after)

    def find_decline(self) -> Decline | None:
        """Of the last 100, against the stretch right before that they differ from most surely; None if chance may explain it."""
        ring = list(self.ring)
        newest, after = self._count(ring[-HEADLINE:]) if ring else None, summarize(ring[-HEADLINE:])
        best, found = DECLINE_LIMIT, None
        for length in DECLINE_STRETCHES:
            if newest is None or after is None or len(ring) < length + HEADLINE:
                break
            stretch = ring[-length - HEADLINE : -HEADLINE]
            earlier, before = self._count(stretch), summarize(stretch)
            assert before is not None
            is_better = after.mean <= before.mean if self.numbers else after.mean >= before.mean
            if is_better or earlier.hits / length - newest.hits / newest.size < LEAST_FALL:
                continue
            ratio = float(likelihood_ratios(length, earlier.hits, newest.size, newest.hits))
            if ratio > best:
                best, found = ratio, Decline(before, after)
        return found

    def find_recovery(self, before: Stretch, after: Stretch) -> Stretch | None:
        """All these outcomes, which are those since a roll back, if they are about as good as those before a fall.

        before, after: of the fall. None if they are too few or worse, or if the newest of them are; also from 100 on, which need
        no comparison of their own.
        """
        ring = list(self.ring)
        if not LEAST_RECOVERED <= len(ring) < HEADLINE:
            return None
        is_good = all(self._is_as_good(each, before, after) for each in (ring, ring[-LEAST_RECOVERED:]))
        return summarize(ring) if is_good else None

    def find_recovery_without_fall(self, recent: "RecentOutcomes") -> Stretch | None:
        """All these outcomes, which are those since a roll back, if the last 100 of `recent` still contain worse ones from before it.

        No fall is found any more once they are the larger part of the last 100. From 100 on they are all of it.
        """
        ring, last = list(self.ring), list(recent.ring)[-HEADLINE:]
        own = {each.offset for each in ring}
        older = [each for each in last if each.offset not in own]
        if not older or not LEAST_RECOVERED <= len(ring) < HEADLINE:
            return None
        newer, newest, before = self._count(ring), self._count(ring[-LEAST_RECOVERED:]), self._count(older)
        if min(each.hits / each.size for each in (newer, newest)) - before.hits / before.size < LEAST_FALL:
            return None
        ratio = float(likelihood_ratios(newer.size, newer.hits, before.size, before.hits))
        return summarize(ring) if ratio > DECLINE_LIMIT else None

    def _is_as_good(self, outcomes: Sequence[Outcome], before: Stretch, after: Stretch) -> bool:
        """Whether outcomes are nearer to `before` than to `after`, and chance may explain that they are worse than `before`."""
        scores = [each.served for each in outcomes]
        count, mean = len(scores), sum(scores) / len(scores)
        if self.numbers:
            deviation = float(np.std(scores)) / count**0.5
            return mean < (before.mean + after.mean) / 2 and mean - before.mean <= 2 * deviation
        if mean <= (before.mean + after.mean) / 2:
            return False
        hits = round(before.mean * before.count)
        ratio = float(likelihood_ratios(before.count, hits, count, sum(scores)))
        return before.mean - mean < LEAST_FALL or ratio <= DECLINE_LIMIT

    def find_lead(self) -> Lead | None:
        """The naive guesser that is furthest ahead of the model; None if chance may explain it."""
        leads = [lead for count in (200, KEPT) for lead in self._find_leads(list(self.ring)[-count:])]
        return max(leads, key=lambda lead: abs(lead.other - lead.model), default=None)

    def _find_leads(self, newest: Sequence[Outcome]) -> Iterable[Lead]:
        columns = ([each.last for each in newest], [each.usual for each in newest])
        for name, column in zip(self.guessers, columns, strict=True):
            pairs = [(each.served, other) for each, other in zip(newest, column, strict=True) if other is not None]
            sign = -1 if self.numbers else 1
            won = sum(sign * served > sign * other for served, other in pairs)
            lost = sum(sign * served < sign * other for served, other in pairs)
            if lost <= won or (lost + won) * divergence(lost / (lost + won), 0.5) < LEAD_LIMIT:
                continue
            model, other = (sum(scores) / len(pairs) for scores in zip(*pairs, strict=True))
            gain = 1 - other / model if self.numbers and model else sign * (other - model)
            if gain >= LEAST_LEAD:
                yield Lead(name, len(pairs), model, other)

    # state

    def to_json(self) -> list[Any]:
        return [[list(each) for each in self.blocks], [list(each) for each in self.ring]]

    @classmethod
    def from_json(cls, numbers: bool, kept: Sequence[Any]) -> "RecentOutcomes":
        found = cls(numbers)
        if kept:
            found.blocks.extend(Block(*each) for each in kept[0])
            found.ring.extend(Outcome(*each) for each in kept[1])
        return found


class Cells:
    """Consecutive counts, with their running sums, so that any stretch is summed up at once."""

    def __init__(self, cells: Sequence[Block]) -> None:
        self.cells = cells
        self.counts = running([cell.size for cell in cells])
        self.hits = running([cell.hits for cell in cells])
        self.totals = running([cell.total for cell in cells])

    def rate(self, start: int, stop: int) -> float:
        return float((self.hits[stop] - self.hits[start]) / (self.counts[stop] - self.counts[start]))

    def summarize(self, start: int, stop: int) -> Stretch:
        count = int(self.counts[stop] - self.counts[start])
        return Stretch(count, float(self.totals[stop] - self.totals[start]) / count, self.cells[stop - 1].offset)

    def find_better_stretch(self, newest: Block) -> tuple[int, int] | None:
        """[start, stop) of the stretch before the newest outcomes that they differ from most surely; None without one."""
        ends = np.flatnonzero(self.counts <= self.counts[-1] - newest.size)
        best, found = LIMIT, None
        for length in STRETCHES:
            starts = np.searchsorted(self.counts, self.counts[ends] - length, side="right") - 1
            usable = starts >= 0
            if not usable.any():
                break
            first, stop = starts[usable], ends[usable]
            count, hits = self.counts[stop] - self.counts[first], self.hits[stop] - self.hits[first]
            ratios = likelihood_ratios(count, hits, newest.size, newest.hits)
            ratios[hits / count - newest.hits / newest.size < LEAST_FALL] = 0
            place = int(np.argmax(ratios))
            if ratios[place] > best:
                best, found = float(ratios[place]), (int(first[place]), int(stop[place]))
        return found

    def find_change(self, start: int, stop: int) -> int:
        """The offset after which the outcomes since `start` differ most from those before, not before `stop`."""
        cuts = np.arange(stop, len(self.cells))
        count, hits = self.counts[cuts] - self.counts[start], self.hits[cuts] - self.hits[start]
        ratios = likelihood_ratios(count, hits, self.counts[-1] - self.counts[cuts], self.hits[-1] - self.hits[cuts])
        return self.cells[int(cuts[np.argmax(ratios)]) - 1].offset


Numbers = NDArray[np.float64]


def running(values: Sequence[float]) -> Numbers:
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, np.float64))])


def likelihood_ratios(count: Any, hits: Any, other_count: Any, other_hits: Any) -> Numbers:
    """Logarithms of how much likelier the hits are with two rates than with one."""
    total, total_hits = count + other_count, hits + other_hits
    apart = log_likelihood(count, hits) + log_likelihood(other_count, other_hits)
    return np.asarray(apart - log_likelihood(total, total_hits), np.float64)


def log_likelihood(count: Any, hits: Any) -> Any:
    """Of `hits` in `count` at the likeliest rate."""
    hits, misses = np.asarray(hits, np.float64), np.asarray(count - hits, np.float64)
    return hits * np.log(np.maximum(hits, 1) / count) + misses * np.log(np.maximum(misses, 1) / count)


def divergence(rate: float, other: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    pairs = ((rate, other), (1 - rate, 1 - other))
    return sum(one * log(one / two) for one, two in pairs if one > 0)


def summarize(outcomes: Sequence[Outcome]) -> Stretch | None:
    if not outcomes:
        return None
    return Stretch(len(outcomes), sum(each.served for each in outcomes) / len(outcomes), outcomes[-1].offset)
