"""Finds out whether answers became worse: of a live model its newest ones, of a replay those anywhere along its learning curve.

    last 50 | 100 | 200 | 500 | 1,000  against every stretch before --> Fall, if chance does not explain it
    last 100 against the 100 | 200 | 500 right before               --> Decline, if chance hardly explains it
    those since a roll back against the stretch before the fall     --> find_recovery, if they are about as good
    served answer against each naive guesser, on the same questions --> GuesserLead
    segments of a curve, split where the two sides differ most      --> levels --> PastFall

The first looks again and again at all stretches of a stream, and so does that of leads, so their limits are far beyond those of a
single test: the logarithm of the likelihood ratio must exceed LIMIT. A stream that stands still raises nothing. A decline is a
notice, and no reason to act: its limit is that of a single look, and about two looks in a hundred at a stream that stands still find
one. A curve is split where the difference of two shares is SPLIT_LIMIT standard errors or more. It has at most 512 segments, so
chance alone makes a split in less than one of a thousand curves of independent answers.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.scoring.prequential import CurveSegment
from online.scoring.recent_outcomes import (
    HEADLINE,
    KEPT,
    AnswerOutcome,
    OutcomeBlock,
    OutcomeSpan,
    RecentOutcomes,
    count_curve,
    summarize,
    summarize_blocks,
)

CELL = 10  # outcomes of the ring that are counted together in the search for a change
WINDOWS = (50, 100, 200, 500, 1_000)  # how many of the newest outcomes are compared with those before
STRETCHES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)  # how many outcomes before may be compared
LIMIT = 16.0  # natural logarithm of a likelihood ratio, as of the drift detectors (Cusum)
LEAST_FALL = 0.05  # of the accuracy; a smaller one is no reason to act, and not worth a reader's time
LEAD_LIMIT, LEAST_LEAD = 12.0, 0.02
DECLINE_LIMIT = 3.0  # as LIMIT, of a single look
DECLINE_STRETCHES = (100, 200, 500)  # how many outcomes right before the last 100 are compared with them
LEAST_RECOVERED = 30  # outcomes since a roll back from which it is judged whether they are as good as before

SPLIT_LIMIT = 5.0  # standard errors
MIN_JUDGED = 30  # answers on either side of a split
MAX_DEPTH = 4  # of splits within splits
DEEP_FALL = 0.2  # from here on a fall matters although the accuracy came back
LONG_ANSWERS, LONG_SHARE = 100, 0.1  # and a shallower one if it lasted for so many answers, and for this share of all
FEW_AFTER = 100  # answers; a recovery that rests on fewer may not last

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fall:
    """Answers are worse than a stretch before. since: the offset of the last event before the change.

    after: of a live model the newest 100, or fewer, also where the fall is found in a longer window: these are the answers of now.
    """

    since: int
    before: OutcomeSpan
    after: OutcomeSpan

    @property
    def begin(self) -> int:
        """The offset of the first event of the change."""
        return self.since + 1


@dataclass(frozen=True, slots=True)
class Decline:
    """The last 100 answers are worse than those right before, more than chance easily explains; too little for a `Fall`."""

    before: OutcomeSpan
    after: OutcomeSpan


@dataclass(frozen=True, slots=True)
class GuesserLead:
    """A naive guesser is better than the model on the same `count` questions. guesser: as in the tallies of the curve."""

    guesser: str
    count: int
    model: float
    other: float


@dataclass(frozen=True, slots=True)
class PastFall:
    """The largest fall of a curve. now: the newest answers that are as good as before, or else those at the end.

    until: where the accuracy first came back; None if it did not. fallen: the answers in between. total: of the curve.
    """

    fall: Fall
    now: OutcomeSpan
    until: int | None
    fallen: int
    total: int

    @property
    def has_recovered(self) -> bool:
        """Whether answers are as good again as before the fall."""
        return self.now.mean >= self.fall.before.mean - LEAST_FALL

    @property
    def has_hardly_recovered(self) -> bool:
        """Whether the recovery rests on few answers."""
        return self.has_recovered and self.now.count < FEW_AFTER

    @property
    def matters(self) -> bool:
        """Whether a reader must know of it: a short and shallow one that is well over says nothing about today."""
        is_deep = self.fall.before.mean - self.fall.after.mean >= DEEP_FALL
        is_long = self.fallen >= max(LONG_ANSWERS, LONG_SHARE * self.total)
        return not self.has_recovered or is_deep or is_long or self.has_hardly_recovered


# the newest answers of a live model


def find_fall(recent: RecentOutcomes) -> Fall | None:
    """Return the fall of the last 100, or else of the fewest newest outcomes, that chance does not explain."""
    ring, cells = list(recent.ring), BlockSeries(recent.cells(CELL))
    falls = {}
    for window in WINDOWS:
        if window <= len(ring) and (found := _find_fall(recent, cells, ring, window)) is not None:
            falls[window] = found
    return falls.get(HEADLINE) or next(iter(falls.values()), None)


def _find_fall(recent: RecentOutcomes, cells: "BlockSeries", ring: Sequence[AnswerOutcome], window: int) -> Fall | None:
    newest, shown = recent.count(ring[-window:]), ring[-min(window, HEADLINE) :]
    found, after = cells.find_better_stretch(newest), summarize(shown)
    if found is None or after is None:
        return None
    earlier = cells.merge(*found)
    before = summarize_blocks([earlier])
    has_recovered = recent.count(shown).rate > (earlier.rate + newest.rate) / 2
    if has_recovered or is_as_good(after, before, recent.numbers):
        return None
    return Fall(cells.find_change(*found), before, after)


def is_as_good(after: OutcomeSpan, before: OutcomeSpan, numbers: bool) -> bool:
    """Return whether answers are at least as good as before."""
    return after.mean <= before.mean if numbers else after.mean >= before.mean


def find_decline(recent: RecentOutcomes) -> Decline | None:
    """Return that of the last 100, against the stretch right before that they differ from most surely; None if chance may explain it."""
    ring = list(recent.ring)
    after, best, found = summarize(ring[-HEADLINE:]), DECLINE_LIMIT, None
    for length in DECLINE_STRETCHES:
        stretch = ring[-length - HEADLINE : -HEADLINE]
        before = summarize(stretch)
        if before is None or after is None or before.count < length:
            break
        earlier, newest = recent.count(stretch), recent.count(ring[-HEADLINE:])
        if is_as_good(after, before, recent.numbers) or earlier.rate - newest.rate < LEAST_FALL:
            continue
        if (ratio := compare(earlier, newest)) > best:
            best, found = ratio, Decline(before, after)
    return found


def find_recovery(recent: RecentOutcomes, since: RecentOutcomes, fallen: Fall | Decline | None) -> OutcomeSpan | None:
    """Return all outcomes since a roll back if they are about as good as those before a fall, or better than those before the roll back.

    None if they are too few or worse, or if the newest of them are; also from 100 on, which need no comparison of their own.
    """
    ring = list(since.ring)
    if not LEAST_RECOVERED <= len(ring) < HEADLINE:
        return None
    parts = (ring, ring[-LEAST_RECOVERED:])
    if fallen is not None:
        is_good = all(is_recovered(each, fallen.before, fallen.after, since.numbers) for each in parts)
    else:
        is_good = is_better_than_rest(recent, since, parts)
    return summarize(ring) if is_good else None


def is_recovered(outcomes: Sequence[AnswerOutcome], before: OutcomeSpan, after: OutcomeSpan, numbers: bool) -> bool:
    """Return whether outcomes are nearer to `before` than to `after`, and chance may explain that they are worse than `before`."""
    scores = [each.served for each in outcomes]
    count, mean = len(scores), sum(scores) / len(scores)
    if numbers:
        deviation = float(np.std(scores)) / count**0.5
        return mean < (before.mean + after.mean) / 2 and mean - before.mean <= 2 * deviation
    if mean <= (before.mean + after.mean) / 2:
        return False
    hits = round(before.mean * before.count)
    ratio = float(likelihood_ratios(before.count, hits, count, sum(scores)))
    return before.mean - mean < LEAST_FALL or ratio <= DECLINE_LIMIT


def is_better_than_rest(
    recent: RecentOutcomes, since: RecentOutcomes, parts: Sequence[Sequence[AnswerOutcome]]
) -> bool:
    """Return whether the last 100 still contain worse outcomes from before a roll back, more than chance easily explains.

    No fall is found any more once those since are the larger part of the last 100. parts: all of those since, and the newest.
    """
    own = {each.offset for each in since.ring}
    older = [each for each in list(recent.ring)[-HEADLINE:] if each.offset not in own]
    if not older:
        return False
    before, counted = recent.count(older), [since.count(part) for part in parts]
    return (
        min(each.rate for each in counted) - before.rate >= LEAST_FALL and compare(counted[0], before) > DECLINE_LIMIT
    )


def find_lead(recent: RecentOutcomes) -> GuesserLead | None:
    """Return that of the naive guesser that is furthest ahead of the model; None if chance may explain it."""
    ring = list(recent.ring)
    leads = [lead for count in (200, KEPT) for lead in _find_leads(recent, ring[-count:])]
    return max(leads, key=lambda lead: abs(lead.other - lead.model), default=None)


def _find_leads(recent: RecentOutcomes, newest: Sequence[AnswerOutcome]) -> Iterator[GuesserLead]:
    sign = -1 if recent.numbers else 1
    columns = ([each.last for each in newest], [each.usual for each in newest])
    for name, column in zip(recent.guessers, columns, strict=True):
        pairs = [(each.served, other) for each, other in zip(newest, column, strict=True) if other is not None]
        won = sum(sign * served > sign * other for served, other in pairs)
        lost = sum(sign * served < sign * other for served, other in pairs)
        if lost <= won or (lost + won) * divergence(lost / (lost + won), 0.5) < LEAD_LIMIT:
            continue
        model, other = (sum(scores) / len(pairs) for scores in zip(*pairs, strict=True))
        gain = 1 - other / model if recent.numbers and model else sign * (other - model)
        if gain >= LEAST_LEAD:
            yield GuesserLead(name, len(pairs), model, other)


# the whole curve of a replay


def find_past_fall(curve: Sequence[CurveSegment]) -> PastFall | None:
    """Return the largest fall of the accuracy of the model; None if there is none that matters."""
    levels = find_levels(curve)
    drops = [one.rate - two.rate for one, two in itertools.pairwise(levels)]
    if max(drops, default=0.0) < LEAST_FALL:
        return None
    place = drops.index(max(drops))
    before, after = levels[place : place + 2]
    least = before.rate - LEAST_FALL
    low = [*itertools.takewhile(lambda level: level.rate < least, levels[place + 1 :])]
    back = place + 1 + len(low)
    good = [*itertools.takewhile(lambda level: level.rate >= least, reversed(levels[place + 1 :]))]
    return PastFall(
        Fall(before.offset, summarize_blocks([before]), summarize_blocks([after])),
        now=summarize_blocks(good[::-1] or levels[-1:]),
        until=levels[back - 1].offset if back < len(levels) else None,
        fallen=sum(level.size for level in low),
        total=sum(level.size for level in levels),
    )


def find_levels(curve: Sequence[CurveSegment]) -> list[OutcomeBlock]:
    """Return consecutive answers of about the same accuracy, each counted together."""
    cells = BlockSeries(count_curve(curve, "model"))
    stops = [0, *split(cells, 0, len(cells.cells), MAX_DEPTH), len(cells.cells)]
    return [cells.merge(*pair) for pair in itertools.pairwise(stops) if cells.cells]


def split(cells: "BlockSeries", start: int, stop: int, depth: int) -> list[int]:
    """Return where the cells are split, in order."""
    if stop - start < 2 or not depth:
        return []
    cut, size = cells.find_split(start, stop)
    if size < SPLIT_LIMIT:
        return []
    return [*split(cells, start, cut, depth - 1), cut, *split(cells, cut, stop, depth - 1)]


# both


class BlockSeries:
    """Consecutive counts, with their running sums, so that any stretch is summed up at once."""

    def __init__(self, cells: Sequence[OutcomeBlock]) -> None:
        self.cells = cells
        self.counts = running([cell.size for cell in cells])
        self.hits = running([cell.hits for cell in cells])
        self.totals = running([cell.total for cell in cells])

    def merge(self, start: int, stop: int) -> OutcomeBlock:
        """Return the cells from `start` up to `stop` as one."""
        last, count = self.cells[stop - 1], int(self.counts[stop] - self.counts[start])
        hits, total = self.hits[stop] - self.hits[start], self.totals[stop] - self.totals[start]
        return OutcomeBlock(last.offset, last.known_until, count, float(hits), float(total))

    def find_better_stretch(self, newest: OutcomeBlock) -> tuple[int, int] | None:
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
            ratios[hits / count - newest.rate < LEAST_FALL] = 0
            place = int(np.argmax(ratios))
            if ratios[place] > best:
                best, found = float(ratios[place]), (int(first[place]), int(stop[place]))
        return found

    def find_change(self, start: int, stop: int) -> int:
        """Return the offset after which the outcomes since `start` differ most from those before, not before `stop`."""
        cuts = np.arange(stop, len(self.cells))
        count, hits = self.counts[cuts] - self.counts[start], self.hits[cuts] - self.hits[start]
        ratios = likelihood_ratios(count, hits, self.counts[-1] - self.counts[cuts], self.hits[-1] - self.hits[cuts])
        return self.cells[int(cuts[np.argmax(ratios)]) - 1].offset

    def find_split(self, start: int, stop: int) -> tuple[int, float]:
        """Return the place that separates the cells from `start` up to `stop` best, and the difference there in standard errors."""
        cuts, whole = np.arange(start + 1, stop), self.merge(start, stop)
        before, hits = self.counts[cuts] - self.counts[start], self.hits[cuts] - self.hits[start]
        after = whole.size - before
        spread = math.sqrt(whole.rate * (1 - whole.rate)) or math.inf
        sizes = np.abs(hits / before - (whole.hits - hits) / after) / (spread * np.sqrt(1 / before + 1 / after))
        sizes[(before < MIN_JUDGED) | (after < MIN_JUDGED)] = 0.0
        place = int(sizes.argmax())
        return int(cuts[place]), float(sizes[place])


def running(values: Sequence[float]) -> Floats:
    """Return running sums, from 0."""
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, np.float64))])


def compare(one: OutcomeBlock, other: OutcomeBlock) -> float:
    """Return the likelihood ratio of two blocks having different rates."""
    return float(likelihood_ratios(one.size, one.hits, other.size, other.hits))


def likelihood_ratios(
    count: Floats | float, hits: Floats | float, other_count: Floats | float, other_hits: Floats | float
) -> Floats:
    """Return logarithms of how much likelier the hits are with two rates than with one."""
    total, total_hits = count + other_count, hits + other_hits
    apart = log_likelihood(count, hits) + log_likelihood(other_count, other_hits)
    return np.asarray(apart - log_likelihood(total, total_hits), np.float64)


def log_likelihood(count: Floats | float, hits: Floats | float) -> Floats:
    """Return that of `hits` in `count` at the likeliest rate."""
    right, wrong = np.asarray(hits, np.float64), np.asarray(count - hits, np.float64)
    return np.asarray(right * np.log(np.maximum(right, 1) / count) + wrong * np.log(np.maximum(wrong, 1) / count))


def divergence(rate: float, other: float) -> float:
    """Return the Kullback-Leibler divergence of two coins."""
    pairs = ((rate, other), (1 - rate, 1 - other))
    return sum(one * math.log(one / two) for one, two in pairs if one > 0)
