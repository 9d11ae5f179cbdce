"""Detectors of change in a sequence: of a loss (CUSUM and ADWIN), and of rows of numbers (KSWIN).

    losses of 0 and 1 --> Cusum --> Change: most answers are wrong, after a handful of them
                      --> Adwin --> Change: the loss rose, by however little
    rows of features  --> Kswin --> Change: the distribution along a fixed direction shifted

Values are added in any number at a time, with the same result. All state is numbers.
Shapes: D features, P directions, N rows of the window, B rows that are added together.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from online.models import Tensors
from online.models.contract import AnyArray
from online.schemas.json_values import JSONArray

DIRECTIONS, SEED = 12, 384
REFERENCE, RECENT, EVERY = 500, 100, 50  # rows: older ones, recent ones, from one comparison to the next
WINDOW = REFERENCE + RECENT
ALPHA = 1e-4  # probability of a false alarm in one comparison, over all directions (Bonferroni)
# the two-sample form of the bound of Dvoretzky, Kiefer and Wolfowitz
BOUND = math.sqrt(math.log(2 * DIRECTIONS / ALPHA) / 2 * (1 / REFERENCE + 1 / RECENT))
SPACING = 10  # recent rows from one place to the next at which the distances are bounded
MAX_PRODUCTS = 1 << 17  # numbers that are multiplied at once, so that they stay in a cache


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The place of a change, the mean before and after it, and the number of values after it."""

    since: int
    before: float
    after: float
    window: int


Bucket = tuple[int, int]


class Adwin:
    """ADWIN (Bifet & Gavalda 2007) over losses of 0 and 1: keeps the longest window without a change.

    river's ADWIN raises the same alarms (a test compares them), but does not serve here: it keeps
    float sums in a Cython object that can only be pickled, while a snapshot holds plain numbers and a
    replay must end in the same bytes. It does not report the offset at which a change began, and it
    reports a fall of the loss as well as a rise.

    levels: at index L the buckets of 2^L losses, (number of ones, offset of the first loss), oldest
    first. A higher level is older. If there are more than five of a level, its two oldest become one
    of the next level. All sums are integers; the variance of zeros and ones follows from their mean.
    """

    MAX_BUCKETS, MIN_PART, GRACE = 5, 5, 10

    def __init__(self, delta: float, clock: int) -> None:
        """clock: the number of losses from one check to the next; 0 checks at every loss of 1."""
        self.delta, self.clock = delta, clock
        self.levels: list[list[Bucket]] = [[]]
        self.count = self.width = self.ones = 0

    @property
    def buckets(self) -> list[list[int]]:
        """[level, number of ones, offset of the first loss] of every bucket, oldest first."""
        levels = reversed([*enumerate(self.levels)])
        return [[level, ones, offset] for level, buckets in levels for ones, offset in buckets]

    def add(self, loss: int, offset: int) -> ChangePoint | None:
        """Add a loss; return the rise that it reveals, if any."""
        return next((change for _, change in self.add_all([loss], [offset])), None)

    def add_all(self, losses: Sequence[int], offsets: Sequence[int]) -> list[tuple[int, ChangePoint]]:
        """Add losses in order; return (index of the loss, rise) for each that reveals one."""
        found, start = list[tuple[int, ChangePoint]](), 0
        for stop in self._find_checks(losses):
            self._append(losses[start:stop], offsets[start:stop])
            if self.width > self.GRACE and (change := self._check()) is not None:
                found.append((stop - 1, change))
            start = stop
        self._append(losses[start:], offsets[start:])
        return found

    def _find_checks(self, losses: Sequence[int]) -> Sequence[int]:
        """Return after how many of the losses a check is due."""
        if self.clock:
            return range(self.clock - self.count % self.clock, len(losses) + 1, self.clock)
        return [index for index, loss in enumerate(losses, 1) if loss]

    def _append(self, losses: Sequence[int], offsets: Sequence[int]) -> None:
        self.count, self.width = self.count + len(losses), self.width + len(losses)
        self.ones += sum(losses)
        added: list[Bucket] = [*zip(losses, offsets, strict=True)]
        for level in count():
            if level == len(self.levels):
                self.levels.append([])
            buckets = self.levels[level]
            buckets += added
            merged = -((self.MAX_BUCKETS - len(buckets)) // 2) * 2  # the oldest ones, in pairs
            if merged <= 0:
                return
            pairs = zip(buckets[:merged:2], buckets[1:merged:2], strict=True)
            added = [(older[0] + newer[0], older[1]) for older, newer in pairs]
            del buckets[:merged]

    def _check(self) -> ChangePoint | None:
        """Drop the oldest buckets until no two parts of the window differ; return the first rise."""
        risen: ChangePoint | None = None
        while (change := self._find_cut()) is not None:
            risen = risen or (change if change.after > change.before else None)
            self._drop_oldest()
        return risen

    def _drop_oldest(self) -> None:
        level = max(level for level, buckets in enumerate(self.levels) if buckets)
        self.width, self.ones = self.width - 2**level, self.ones - self.levels[level].pop(0)[0]

    def _find_cut(self) -> ChangePoint | None:
        """Return the oldest cut whose two sides differ by more than the bound."""
        width, ones, least = self.width, self.ones, self.MIN_PART
        mean = ones / width
        doubt = math.log(2 * math.log(width) / self.delta)
        clear = 1.99 * mean * (1 - mean) * doubt
        old = old_ones = 0
        differs = False
        for level in range(len(self.levels) - 1, -1, -1):
            for bucket_ones, offset in self.levels[level]:
                if differs:  # the change began with the bucket after the cut
                    return ChangePoint(offset, old_ones / old, (ones - old_ones) / (width - old), width - old)
                old, old_ones = old + (1 << level), old_ones + bucket_ones
                new = width - old
                if new <= least:
                    return None
                if old <= least:
                    continue
                share = 1 / (old - least + 1) + 1 / (new - least + 1)
                distance = abs(old_ones / old - (ones - old_ones) / new)
                if distance * distance < share * clear:
                    continue  # the bound is larger than the root of that
                bound = math.sqrt(2 * share * mean * (1 - mean) * doubt) + 2 / 3 * share * doubt
                differs = distance > bound
        return None

    def numbers(self) -> JSONArray:
        """Return the state as JSON values."""
        return [self.count, self.buckets]

    def restore(self, numbers: JSONArray) -> None:
        """Adopt what `numbers` returned."""
        self.count, buckets = numbers
        self.levels = [[] for _ in range(1 + max((level for level, _, _ in buckets), default=0))]
        for level, ones, offset in buckets:
            self.levels[level].append((ones, offset))
        self.width = sum(2**level for level, _, _ in buckets)
        self.ones = sum(ones for _, ones, _ in buckets)


class Cusum:
    """CUSUM (Page 1954) of the likelihood ratio of losses of 0 and 1: detects soon that most answers are wrong.

    The probability of an error before the change is that of the class, which leans on that of all classes while few
    of its losses are known; after it, JUMP of the way from there to 1. The sum is in thousandths of a natural
    logarithm, an integer, so that a replay gives the same bytes. It exceeds LIMIT by chance once in exp(LIMIT /
    1,000) losses at most. Losses of a class with fewer than KNOWN of them are not added: those of a new class are
    wrong because it is new.
    """

    LIMIT, JUMP, LEAST, KNOWN = 16_000, 0.6, 60, 5
    LEANING, LONGEST = 8, 256  # losses that the probability for all is worth; losses of a class that count

    def __init__(self) -> None:
        self.sum = self.since = self.wrong_since = self.count_since = 0
        self.seen: dict[str, list[int]] = {}  # of each class: losses, and how many of them are 1
        self.count = self.ones = 0

    def add(self, loss: int, label: str, offset: int) -> ChangePoint | None:
        """Add a loss; return the rise that it reveals, if any. After a rise all that came before is forgotten."""
        seen = self.seen.setdefault(label, [0, 0])
        change = self._add(loss, seen, offset) if self.count >= self.LEAST and seen[0] >= self.KNOWN else None
        if change is not None:
            self.restore([0, 0, 0, 0, 0, 0, []])
            return change
        seen[0] += 1
        seen[1] += loss
        self.count, self.ones = self.count + 1, self.ones + loss
        if seen[0] >= self.LONGEST:
            seen[:] = seen[0] // 2, seen[1] // 2
        return None

    def _add(self, loss: int, seen: list[int], offset: int) -> ChangePoint | None:
        overall = (self.ones + 1) / (self.count + 2)
        usual = max(0.02, (seen[1] + self.LEANING * overall) / (seen[0] + self.LEANING))
        risen = usual + self.JUMP * (1 - usual)
        ratio = risen / usual if loss else (1 - risen) / (1 - usual)
        if self.sum == 0:
            self.since, self.wrong_since, self.count_since = offset, 0, 0
        self.sum = max(0, self.sum + round(1_000 * math.log(ratio)))
        self.wrong_since, self.count_since = self.wrong_since + loss, self.count_since + 1
        if self.sum < self.LIMIT:
            return None
        before = (self.ones - self.wrong_since) / max(self.count - self.count_since, 1)
        return ChangePoint(self.since, max(0.0, before), self.wrong_since / self.count_since, self.count_since)

    def numbers(self) -> JSONArray:
        """Return the state as JSON values."""
        excursion = [self.sum, self.since, self.wrong_since, self.count_since]
        return [*excursion, self.count, self.ones, sorted([label, *seen] for label, seen in self.seen.items())]

    def restore(self, numbers: JSONArray) -> None:
        """Adopt what `numbers` returned."""
        self.sum, self.since, self.wrong_since, self.count_since, self.count, self.ones, seen = numbers
        self.seen = {label: [count, ones] for label, count, ones in seen}


Shift = tuple[int, float, ChangePoint]  # direction, distance, change


class Kswin:
    """KSWIN (Raab et al. 2020) on fixed directions: compares recent rows with the older rows of a window.

    river's KSWIN does not serve here: it watches a single number, draws its reference rows at random
    from a generator whose state would have to be part of every snapshot, and uses SciPy's p-values,
    which may differ in the last digit between releases. Here all older rows are the reference, every
    direction is compared at once, and distances are counted in integers, so that a replay raises the
    same alarms and ends in the same bytes.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        bits = np.random.Philox(SEED).random_raw(DIRECTIONS * width) & 1
        self.signs_PD = 2.0 * bits.reshape(DIRECTIONS, width) - 1
        self.placed_PN = np.zeros((DIRECTIONS, 4 * WINDOW))  # the window moves through this buffer
        self.offsets: deque[int] = deque(maxlen=WINDOW)
        self.end = self.count = 0

    def add(self, rows_BD: AnyArray, offsets: Sequence[int]) -> list[tuple[int, Shift]]:
        """Add rows; return (index of the row, its largest shift) for each row at which a shift is significant."""
        placed_BP, found, start = self._project(rows_BD), list[tuple[int, Shift]](), 0
        while start < len(offsets):
            stop = min(start + EVERY - self.count % EVERY, len(offsets))
            self._append(placed_BP[start:stop], offsets[start:stop])
            if self.count % EVERY == 0 and len(self.offsets) == WINDOW and (shift := self._check()) is not None:
                found.append((stop - 1, shift))
            start = stop
        return found

    def _project(self, rows_BD: AnyArray) -> NDArray[np.float64]:
        """Place rows on the directions [B, P], each row as if it were alone: no sum depends on the others."""
        if rows_BD.dtype.kind == "i":  # sums of integers are exact in any order
            return np.asarray(rows_BD.astype(np.float64) @ self.signs_PD.T)
        step = max(1, MAX_PRODUCTS // self.signs_PD.size)
        parts = [rows_BD[start : start + step, None, :] for start in range(0, len(rows_BD), step)]
        return np.concatenate([(self.signs_PD * part_B1D).sum(2) for part_B1D in parts])

    def _append(self, placed_BP: NDArray[np.float64], offsets: Sequence[int]) -> None:
        if self.end + len(placed_BP) > self.placed_PN.shape[1]:
            self._place(self._window().copy())
        self.placed_PN[:, self.end : self.end + len(placed_BP)] = placed_BP.T
        self.offsets.extend(offsets)
        self.end, self.count = self.end + len(placed_BP), self.count + len(placed_BP)

    def _window(self) -> NDArray[np.float64]:
        return self.placed_PN[:, self.end - len(self.offsets) : self.end]

    def _place(self, placed_PN: NDArray[np.float64]) -> None:
        self.placed_PN[:, : placed_PN.shape[1]], self.end = placed_PN, placed_PN.shape[1]

    def _check(self) -> Shift | None:
        placed_PN = self._window()
        if bound_distances(placed_PN, REFERENCE).max() <= BOUND:
            return None
        distances = kolmogorov_smirnov(placed_PN, REFERENCE)
        furthest = int(np.argmax(distances))
        if distances[furthest] <= BOUND:
            return None
        old_N, new_N = placed_PN[furthest, :-RECENT], placed_PN[furthest, -RECENT:]
        before, after = float(old_N.mean()), float(new_N.mean())
        for _ in range(REFERENCE):
            self.offsets.popleft()
        return furthest, float(distances[furthest]), ChangePoint(self.offsets[0], before, after, RECENT)

    def tensors(self) -> Tensors:
        """Return the state as tensors."""
        return {
            "count": np.array([self.count], np.int64),
            "offsets": np.array(self.offsets, np.int64),
            "placed": np.ascontiguousarray(self._window().T),
        }

    def restore(self, tensors: Tensors) -> None:
        """Adopt what `tensors` returned."""
        self.count = int(tensors["count"][0])
        self.offsets.clear()
        self.offsets.extend(tensors["offsets"].tolist())
        self._place(tensors["placed"].T)


def bound_distances(placed_PN: NDArray[np.float64], first: int) -> NDArray[np.float64]:
    """[P] bounds that the distances of `kolmogorov_smirnov` do not exceed, in a third of its time.

    Both distributions are counted at every tenth of the other numbers, and rise between two of these
    places at most from the one count to the other.
    """
    old_count, new_count = first, placed_PN.shape[1] - first
    places_PK = np.sort(placed_PN[:, first:], axis=1)[:, SPACING - 1 :: SPACING]
    below_PKN = (placed_PN[:, None, :] <= places_PK[:, :, None]).view(np.int8)
    counts_PK2 = np.zeros((len(places_PK), places_PK.shape[1] + 2, 2), np.int64)
    counts_PK2[:, 1:-1] = np.add.reduceat(below_PKN, [0, first], axis=2, dtype=np.int64)
    counts_PK2[:, -1] = old_count, new_count
    old_PK, new_PK = counts_PK2[..., 0] * new_count, counts_PK2[..., 1] * old_count
    gaps_PK = np.maximum(old_PK[:, 1:] - new_PK[:, :-1], new_PK[:, 1:] - old_PK[:, :-1])
    return np.asarray(gaps_PK.max(1) / (old_count * new_count))


def kolmogorov_smirnov(placed_PN: NDArray[np.float64], first: int) -> NDArray[np.float64]:
    """[P] the largest difference between the empirical distributions of the first numbers and of the others.

    Counts in integers along each sorted row; among equal numbers only the last one counts.
    """
    others = placed_PN.shape[1] - first
    order_PN = np.argsort(placed_PN, axis=1, kind="stable")
    ahead_PN = np.cumsum(np.where(order_PN < first, others, -first), axis=1)
    sorted_PN = np.take_along_axis(placed_PN, order_PN, axis=1)
    ahead_PN[:, :-1][sorted_PN[:, 1:] == sorted_PN[:, :-1]] = 0
    return np.asarray(np.abs(ahead_PN).max(1) / (first * others))
