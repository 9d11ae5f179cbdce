"""When the world changed: detectors over the entries a model learns, and what they tell.

    entry --> what was answered against what came back --> Adwin of the model, Adwin of the label   "loss", "class"
          \\-> features on fixed directions, no label    --> Kswin                                   "features"

Only a rise of the loss is drift; getting better is not. Losses are of the answers that were given at the time, in the
order of the stream, whichever version gave them. A detector never resets weights: it says what changed, where and by
how much, and a model that acts on it shortens what its means rest on. The whole state is numbers, a function of the
entries alone; what is taken back later was answered all the same, so its loss stays counted.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from online.models import Options, Part, Tensors, packed, unpacked
from online.models.encoder import TEXT_WIDTH, reads
from online.schemas import Entry, Event

What = Literal["loss", "class", "features"]
DELTA = 0.002  # of the model's losses: river's default, looked at every 32nd
CLASS_DELTA = 0.01  # of one label's, looked at whenever an answer was wrong: there are few of them
MAX_LABELS = 4_096  # labels watched on their own
DIRECTIONS, SEED = 12, 384
REFERENCE, RECENT, EVERY = 500, 100, 50  # rows of features: compared with, compared, between two comparisons
WINDOW = REFERENCE + RECENT
ALPHA = 1e-4  # chance of a false alarm in one comparison, over all directions (Bonferroni)
ALARMS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Alarm:
    """offset: of the entry that showed it. since: about where the change began.

    before, after: the mean loss (or of features, the mean on the direction) before and since. size: after - before (of
    features, the Kolmogorov-Smirnov distance). window: how many entries it has been seen in.
    """

    offset: int
    what: What
    label: str | None
    projection: int | None
    since: int
    before: float
    after: float
    size: float
    window: int


@dataclass(frozen=True, slots=True)
class Change:
    since: int
    before: float
    after: float
    window: int


class Adwin:
    """ADWIN (Bifet & Gavalda 2007) over losses of 0 and 1: the longest window whose parts do not differ.

    buckets: [level, losses that were 1, offset of the first], oldest first, each of 2^level losses; more than five of
    a level and its two oldest become one of the next. All integers: of zeros and ones the mean gives the variance.
    """

    MOST, SHORTEST, GRACE = 5, 5, 10

    def __init__(self, delta: float, clock: int) -> None:
        """clock: look at every so-manyth loss; 0: whenever one is 1."""
        self.delta, self.clock = delta, clock
        self.buckets: list[list[int]] = []
        self.count = self.width = self.ones = 0

    def add(self, loss: int, offset: int) -> Change | None:
        """The first rise that this loss shows, if it does."""
        self.count, self.width, self.ones = self.count + 1, self.width + 1, self.ones + loss
        self.buckets.append([0, loss, offset])
        self._compress()
        due = self.count % self.clock == 0 if self.clock else loss
        return self._look() if due and self.width > self.GRACE else None

    def _compress(self) -> None:
        end = len(self.buckets)
        level = 0
        while end:
            start = end
            while start and self.buckets[start - 1][0] == level:
                start -= 1
            if end - start <= self.MOST:
                return
            older, newer = self.buckets[start], self.buckets.pop(start + 1)
            older[0], older[1] = level + 1, older[1] + newer[1]
            level, end = level + 1, start + 1

    def _look(self) -> Change | None:
        """Drop the oldest buckets until no two parts of the window differ."""
        risen: Change | None = None
        while (change := self._cut()) is not None:
            risen = risen or (change if change.after > change.before else None)
            level, ones, _ = self.buckets.pop(0)
            self.width, self.ones = self.width - 2**level, self.ones - ones
        return risen

    def _cut(self) -> Change | None:
        mean = self.ones / self.width
        doubt = math.log(2 * math.log(self.width) / self.delta)
        old = old_ones = 0
        for place, (level, ones, _) in enumerate(self.buckets[:-1], 1):
            old, old_ones = old + 2**level, old_ones + ones
            new, new_ones = self.width - old, self.ones - old_ones
            if new <= self.SHORTEST:
                return None
            if old <= self.SHORTEST:
                continue
            before, after = old_ones / old, new_ones / new
            share = 1 / (old - self.SHORTEST + 1) + 1 / (new - self.SHORTEST + 1)
            if abs(before - after) > math.sqrt(2 * share * mean * (1 - mean) * doubt) + 2 / 3 * share * doubt:
                return Change(self.buckets[place][2], before, after, new)
        return None

    def numbers(self) -> list[Any]:
        return [self.count, self.buckets]

    def restore(self, numbers: list[Any]) -> None:
        self.count, self.buckets = numbers
        self.width = sum(2**level for level, _, _ in self.buckets)
        self.ones = sum(ones for _, ones, _ in self.buckets)


class Kswin:
    """KSWIN (Raab et al. 2020) on fixed directions: do the last rows lie where the ones before them lay?

    The reference is every row in the window that is not recent, where river draws some of them.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        bits = np.random.Philox(SEED).random_raw(DIRECTIONS * width) & 1
        self.signs_PD = 2.0 * bits.reshape(DIRECTIONS, width) - 1
        self.placed_NP = np.zeros((4 * WINDOW, DIRECTIONS))  # the window lies in it, and moves on
        self.offsets: deque[int] = deque(maxlen=WINDOW)
        self.end = self.count = 0

    def add(self, row_D: NDArray[Any], offset: int) -> tuple[int, float, Change] | None:
        """(direction, distance, change) of the direction that moved most, if any moved too far."""
        if self.end == len(self.placed_NP):
            self._hold(self._window().copy())
        self.placed_NP[self.end] = (self.signs_PD * row_D).sum(1)  # row by row: no sum depends on a batch
        self.offsets.append(offset)
        self.end, self.count = self.end + 1, self.count + 1
        return self._look() if self.count % EVERY == 0 and len(self.offsets) == WINDOW else None

    def _window(self) -> NDArray[np.float64]:
        return self.placed_NP[self.end - len(self.offsets) : self.end]

    def _hold(self, placed_NP: NDArray[np.float64]) -> None:
        self.placed_NP[: len(placed_NP)], self.end = placed_NP, len(placed_NP)

    def _look(self) -> tuple[int, float, Change] | None:
        placed_NP = self._window()
        old_RP, new_RP = placed_NP[:-RECENT], placed_NP[-RECENT:]
        distances = kolmogorov_smirnov(placed_NP, REFERENCE)
        most = int(np.argmax(distances))
        # two-sample form of the bound of Dvoretzky, Kiefer and Wolfowitz
        bound = math.sqrt(math.log(2 * DIRECTIONS / ALPHA) / 2 * (1 / REFERENCE + 1 / RECENT))
        if distances[most] <= bound:
            return None
        before, after = float(old_RP[:, most].mean()), float(new_RP[:, most].mean())
        for _ in range(REFERENCE):
            self.offsets.popleft()
        return most, float(distances[most]), Change(self.offsets[0], before, after, RECENT)

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
        self._hold(tensors["placed"])


def kolmogorov_smirnov(placed_NP: NDArray[np.float64], first: int) -> NDArray[np.float64]:
    """[P] the largest difference between the empirical distributions of the `first` rows and of the others.

    Counted in integers along each sorted column; of equal numbers only the last one counts.
    """
    others = len(placed_NP) - first
    order_NP = np.argsort(placed_NP, axis=0, kind="stable")
    ahead_NP = np.cumsum(np.where(order_NP < first, others, -first), axis=0)
    sorted_NP = np.take_along_axis(placed_NP, order_NP, axis=0)
    ahead_NP[:-1][sorted_NP[1:] == sorted_NP[:-1]] = 0
    furthest_P: NDArray[np.float64] = np.abs(ahead_NP).max(0) / (first * others)
    return furthest_P


class Monitor:
    """All detectors of one model. `observe` the entries in order; alarms: the newest, oldest first; told: all, ever."""

    def __init__(self, kind: str, options: Options) -> None:
        self.rates_answers = kind != "regressor"  # a number is near or far, not right or wrong
        self.losses = Adwin(DELTA, clock=32)
        self.classes: dict[str, Adwin] = {}
        self.dtype, width = seen_as(kind, options)
        self.features = Kswin(width) if width else None
        self.alarms: list[Alarm] = []
        self.told = 0

    def observe(self, entry: Entry) -> list[Alarm]:
        """What this entry shows, whether or not it can be learned."""
        found = [*self._observe_loss(entry), *self._observe_features(entry)]
        self.alarms = [*self.alarms, *found][-ALARMS_KEPT:] if found else self.alarms
        self.told += len(found)
        return found

    def _observe_loss(self, entry: Entry) -> Iterator[Alarm]:
        loss = loss_of(entry.event)
        if loss is None or not self.rates_answers:
            return
        label = entry.event.label
        if label not in self.classes and len(self.classes) < MAX_LABELS:
            self.classes[label] = Adwin(CLASS_DELTA, clock=0)
        change = self.losses.add(loss, entry.offset)
        if change is not None:
            yield self._risen(entry.offset, "loss", None, change)
        change = self.classes[label].add(loss, entry.offset) if label in self.classes else None
        if change is not None:
            yield self._risen(entry.offset, "class", label, change)

    @staticmethod
    def _risen(offset: int, what: What, label: str | None, change: Change) -> Alarm:
        before, after = round(change.before, 6), round(change.after, 6)
        size = round(change.after - change.before, 6)
        return Alarm(offset, what, label, None, change.since, before, after, size, change.window)

    def _observe_features(self, entry: Entry) -> Iterator[Alarm]:
        data, asked = entry.event.features, "#" not in entry.event.id  # no repertoire, which comes in its own order
        if not asked or self.features is None or len(data) != self.features.width * self.dtype.itemsize:
            return
        found = self.features.add(np.frombuffer(data, self.dtype), entry.offset)
        if found is not None:
            direction, far, change = found
            before, after = round(change.before, 6), round(change.after, 6)
            yield Alarm(
                entry.offset, "features", None, direction, change.since, before, after, round(far, 6), change.window
            )

    # state

    def part(self) -> Part:
        told: dict[str, Any] = {
            "losses": self.losses.numbers(),
            "classes": [[label, adwin.numbers()] for label, adwin in sorted(self.classes.items())],
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "told": self.told,
        }
        seen = self.features.tensors() if self.features is not None else {}
        return Part({"meta": packed(told), **seen}, serving=False)

    def restore(self, part: Part) -> None:
        told = unpacked(part.tensors["meta"])
        self.losses.restore(told["losses"])
        for label, numbers in told["classes"]:
            self.classes[label] = Adwin(CLASS_DELTA, clock=0)
            self.classes[label].restore(numbers)
        self.alarms, self.told = [Alarm(**alarm) for alarm in told["alarms"]], told["told"]
        if self.features is not None:
            self.features.restore(part.tensors)


def seen_as(kind: str, options: Options) -> tuple[np.dtype[Any], int]:
    """How a model's encoded inputs are read as numbers, and how many those are; 0 where they are no row of numbers."""
    told = reads(kind, options)
    if told["input"] == "vector":
        return np.dtype(np.float64), told["size"]
    return np.dtype(np.int8), TEXT_WIDTH if told["input"] == "text" else 0


def loss_of(event: Event) -> int | None:
    """Whether what was answered was wrong: 0 or 1; None where nothing was answered or nobody said."""
    if event.choice is None or event.kind not in ("label", "correction", "reward"):
        return None
    return int(event.reward < 0.5 if event.kind == "reward" else event.choice != event.label)
