"""Drift detectors: report when the answers became worse or the inputs changed.

    entry --> recorded answer against feedback  --> Adwin of the model, Adwin of the class  "loss", "class"
          \\-> features on fixed directions      --> Kswin                                   "features"

Only a rise of the loss is drift; an improvement is not. Losses are those of the recorded answers, in
the order of the stream, whichever version gave them. A detector never resets weights: it reports
what changed, where and by how much, and a model that acts on it shortens the window of its means.
All state is numbers and depends on the entries alone. Feedback that is retracted later still counts,
because the answer was given.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from online.models import Options, Part, Tensors, input_options, pack_json, spec_of, unpack_json
from online.models.encoders.text import TEXT_WIDTH
from online.schemas.events import Entry, Event, is_positive

AlarmKind = Literal["loss", "class", "features"]
DELTA = 0.002  # for the model's losses, checked at every 32nd: river's default
CLASS_DELTA = 0.01  # for the losses of one class, checked at every wrong answer, because these are few
MAX_CLASSES = 4_096  # classes with a detector of their own
DIRECTIONS, SEED = 12, 384
REFERENCE, RECENT, EVERY = 500, 100, 50  # rows: older ones, recent ones, from one comparison to the next
WINDOW = REFERENCE + RECENT
ALPHA = 1e-4  # probability of a false alarm in one comparison, over all directions (Bonferroni)
ALARMS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change that a detector found.

    offset: of the entry that raised it. label: the class, for a change of one class. projection: the
    direction, for a change of features. since: the offset near which the change began. before, after:
    the mean loss, or the mean along the direction. size: after - before, or the Kolmogorov-Smirnov
    distance for features. window: the number of entries since the change.
    """

    offset: int
    what: AlarmKind
    label: str | None
    projection: int | None
    since: int
    before: float
    after: float
    size: float
    window: int


@dataclass(frozen=True, slots=True)
class Change:
    """Where a change began, the mean before and after it, and the number of values after it."""

    since: int
    before: float
    after: float
    window: int


class Adwin:
    """ADWIN (Bifet & Gavalda 2007) over losses of 0 and 1: keeps the longest window without a change.

    river's ADWIN raises the same alarms (a test compares them), but does not serve here: it keeps
    float sums in a Cython object that can only be pickled, while a snapshot holds plain numbers and a
    replay must end in the same bytes. It does not report the offset at which a change began, and it
    reports a fall of the loss as well as a rise.

    buckets: [level, number of ones, offset of the first loss], oldest first, each of 2^level losses.
    If there are more than five of a level, its two oldest become one of the next level. All sums are
    integers; the variance of zeros and ones follows from their mean.
    """

    MAX_BUCKETS, MIN_PART, GRACE = 5, 5, 10

    def __init__(self, delta: float, clock: int) -> None:
        """clock: the number of losses from one check to the next; 0 checks at every loss of 1."""
        self.delta, self.clock = delta, clock
        self.buckets: list[list[int]] = []
        self.count = self.width = self.ones = 0

    def add(self, loss: int, offset: int) -> Change | None:
        """Add a loss; return the rise that it reveals, if any."""
        self.count, self.width, self.ones = self.count + 1, self.width + 1, self.ones + loss
        self.buckets.append([0, loss, offset])
        self._compress()
        is_due = self.count % self.clock == 0 if self.clock else loss
        return self._check() if is_due and self.width > self.GRACE else None

    def _compress(self) -> None:
        end = len(self.buckets)
        level = 0
        while end:
            start = end
            while start and self.buckets[start - 1][0] == level:
                start -= 1
            if end - start <= self.MAX_BUCKETS:
                return
            older, newer = self.buckets[start], self.buckets.pop(start + 1)
            older[0], older[1] = level + 1, older[1] + newer[1]
            level, end = level + 1, start + 1

    def _check(self) -> Change | None:
        """Drop the oldest buckets until no two parts of the window differ; return the first rise."""
        risen: Change | None = None
        while (change := self._find_cut()) is not None:
            risen = risen or (change if change.after > change.before else None)
            level, ones, _ = self.buckets.pop(0)
            self.width, self.ones = self.width - 2**level, self.ones - ones
        return risen

    def _find_cut(self) -> Change | None:
        """Return the oldest cut whose two sides differ by more than the bound."""
        mean = self.ones / self.width
        doubt = math.log(2 * math.log(self.width) / self.delta)
        old = old_ones = 0
        for index, (level, ones, _) in enumerate(self.buckets[:-1], 1):
            old, old_ones = old + 2**level, old_ones + ones
            new, new_ones = self.width - old, self.ones - old_ones
            if new <= self.MIN_PART:
                return None
            if old <= self.MIN_PART:
                continue
            before, after = old_ones / old, new_ones / new
            share = 1 / (old - self.MIN_PART + 1) + 1 / (new - self.MIN_PART + 1)
            if abs(before - after) > math.sqrt(2 * share * mean * (1 - mean) * doubt) + 2 / 3 * share * doubt:
                return Change(self.buckets[index][2], before, after, new)
        return None

    def numbers(self) -> list[Any]:
        return [self.count, self.buckets]

    def restore(self, numbers: list[Any]) -> None:
        self.count, self.buckets = numbers
        self.width = sum(2**level for level, _, _ in self.buckets)
        self.ones = sum(ones for _, ones, _ in self.buckets)


class Kswin:
    """KSWIN (Raab et al. 2020) on fixed directions: compares recent rows with the older rows of a window.

    river's KSWIN does not serve here: it watches a single number, draws its reference rows at random
    from a generator whose state would have to be part of every snapshot, and uses SciPy's p-values,
    which may differ in the last digit between releases. Here all older rows are the reference, every
    direction is compared at once, and distances are counted in integers, so that a replay raises the
    same alarms and ends in the same bytes.

    Shapes: D features, P directions, N rows of the window, R older rows.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        bits = np.random.Philox(SEED).random_raw(DIRECTIONS * width) & 1
        self.signs_PD = 2.0 * bits.reshape(DIRECTIONS, width) - 1
        self.placed_NP = np.zeros((4 * WINDOW, DIRECTIONS))  # the window moves through this buffer
        self.offsets: deque[int] = deque(maxlen=WINDOW)
        self.end = self.count = 0

    def add(self, row_D: NDArray[Any], offset: int) -> tuple[int, float, Change] | None:
        """Add a row; return (direction, distance, change) of the largest shift if it is significant."""
        if self.end == len(self.placed_NP):
            self._place(self._window().copy())
        self.placed_NP[self.end] = (self.signs_PD * row_D).sum(1)  # row by row: no sum depends on a batch
        self.offsets.append(offset)
        self.end, self.count = self.end + 1, self.count + 1
        return self._check() if self.count % EVERY == 0 and len(self.offsets) == WINDOW else None

    def _window(self) -> NDArray[np.float64]:
        return self.placed_NP[self.end - len(self.offsets) : self.end]

    def _place(self, placed_NP: NDArray[np.float64]) -> None:
        self.placed_NP[: len(placed_NP)], self.end = placed_NP, len(placed_NP)

    def _check(self) -> tuple[int, float, Change] | None:
        placed_NP = self._window()
        old_RP, new_RP = placed_NP[:-RECENT], placed_NP[-RECENT:]
        distances = kolmogorov_smirnov(placed_NP, REFERENCE)
        furthest = int(np.argmax(distances))
        # the two-sample form of the bound of Dvoretzky, Kiefer and Wolfowitz
        bound = math.sqrt(math.log(2 * DIRECTIONS / ALPHA) / 2 * (1 / REFERENCE + 1 / RECENT))
        if distances[furthest] <= bound:
            return None
        before, after = float(old_RP[:, furthest].mean()), float(new_RP[:, furthest].mean())
        for _ in range(REFERENCE):
            self.offsets.popleft()
        return furthest, float(distances[furthest]), Change(self.offsets[0], before, after, RECENT)

    def tensors(self) -> Tensors:
        return {
            "count": np.array([self.count], np.int64),
            "offsets": np.array(self.offsets, np.int64),
            "placed": self._window().copy(),
        }

    def restore(self, tensors: Tensors) -> None:
        self.count = int(tensors["count"][0])
        self.offsets.clear()
        self.offsets.extend(tensors["offsets"].tolist())
        self._place(tensors["placed"])


def kolmogorov_smirnov(placed_NP: NDArray[np.float64], first: int) -> NDArray[np.float64]:
    """[P] the largest difference between the empirical distributions of the first rows and of the others.

    Counts in integers along each sorted column; among equal numbers only the last one counts.
    """
    others = len(placed_NP) - first
    order_NP = np.argsort(placed_NP, axis=0, kind="stable")
    ahead_NP = np.cumsum(np.where(order_NP < first, others, -first), axis=0)
    sorted_NP = np.take_along_axis(placed_NP, order_NP, axis=0)
    ahead_NP[:-1][sorted_NP[1:] == sorted_NP[:-1]] = 0
    furthest_P: NDArray[np.float64] = np.abs(ahead_NP).max(0) / (first * others)
    return furthest_P


class DriftMonitor:
    """All detectors of one model, which observe its entries in order.

    alarms: the newest ones, oldest first. alarm_count: the number of all alarms so far.
    """

    def __init__(self, kind: str, options: Options) -> None:
        self.rates_answers = not spec_of(kind).predicts_numbers  # a number is near or far, never right or wrong
        self.losses = Adwin(DELTA, clock=32)
        self.classes: dict[str, Adwin] = {}
        self.dtype, width = find_input_format(kind, options)
        self.features = Kswin(width) if width else None
        self.alarms: list[Alarm] = []
        self.alarm_count = 0

    def observe(self, entry: Entry) -> list[Alarm]:
        """Return the alarms that this entry raises, whether or not the model can learn it."""
        found = [*self._observe_loss(entry), *self._observe_features(entry)]
        self.alarms = [*self.alarms, *found][-ALARMS_KEPT:] if found else self.alarms
        self.alarm_count += len(found)
        return found

    def _observe_loss(self, entry: Entry) -> Iterator[Alarm]:
        loss = compute_loss(entry.event)
        if loss is None or not self.rates_answers:
            return
        label = entry.event.label
        if label not in self.classes and len(self.classes) < MAX_CLASSES:
            self.classes[label] = Adwin(CLASS_DELTA, clock=0)
        change = self.losses.add(loss, entry.offset)
        if change is not None:
            yield self._describe_rise(entry.offset, "loss", None, change)
        change = self.classes[label].add(loss, entry.offset) if label in self.classes else None
        if change is not None:
            yield self._describe_rise(entry.offset, "class", label, change)

    @staticmethod
    def _describe_rise(offset: int, what: AlarmKind, label: str | None, change: Change) -> Alarm:
        before, after = round(change.before, 6), round(change.after, 6)
        size = round(change.after - change.before, 6)
        return Alarm(offset, what, label, None, change.since, before, after, size, change.window)

    def _observe_features(self, entry: Entry) -> Iterator[Alarm]:
        data = entry.event.features
        if (
            not entry.event.is_feedback
            or self.features is None
            or len(data) != self.features.width * self.dtype.itemsize
        ):
            return
        found = self.features.add(np.frombuffer(data, self.dtype), entry.offset)
        if found is not None:
            direction, distance, change = found
            before, after = round(change.before, 6), round(change.after, 6)
            yield Alarm(
                entry.offset,
                "features",
                None,
                direction,
                change.since,
                before,
                after,
                round(distance, 6),
                change.window,
            )

    # state

    def part(self) -> Part:
        meta: dict[str, Any] = {
            "losses": self.losses.numbers(),
            "classes": [[label, adwin.numbers()] for label, adwin in sorted(self.classes.items())],
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "told": self.alarm_count,
        }
        tensors = self.features.tensors() if self.features is not None else {}
        return Part({"meta": pack_json(meta), **tensors}, serving=False)

    def restore(self, part: Part) -> None:
        meta = unpack_json(part.tensors["meta"])
        self.losses.restore(meta["losses"])
        for label, numbers in meta["classes"]:
            self.classes[label] = Adwin(CLASS_DELTA, clock=0)
            self.classes[label].restore(numbers)
        self.alarms, self.alarm_count = [Alarm(**alarm) for alarm in meta["alarms"]], meta["told"]
        if self.features is not None:
            self.features.restore(part.tensors)


def find_input_format(kind: str, options: Options) -> tuple[np.dtype[Any], int]:
    """Return the type and the count of the numbers in an encoded input; the count is 0 for a table."""
    given = input_options(kind, options)
    if given["input"] == "vector":
        return np.dtype(np.float64), given["size"]
    return np.dtype(np.int8), TEXT_WIDTH if given["input"] == "text" else 0


def compute_loss(event: Event) -> int | None:
    """Return 1 if the recorded answer was wrong, 0 if it was right, None without an answer or feedback."""
    if event.choice is None or event.kind not in ("label", "correction", "reward"):
        return None
    return int(not is_positive(event.reward) if event.kind == "reward" else event.choice != event.label)
