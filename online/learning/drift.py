"""Drift detectors: report when the answers became worse or the inputs changed.

    entry --> recorded answer against feedback  --> Cusum, Adwin of the model, Adwin of the class  "loss", "class"
          \\-> features on fixed directions      --> Kswin                                          "features"

    all that they raise --> the model, which may act on it
                        \\-> the first of each change --> what is reported: log, store, metrics, pages

Only a rise of the loss is drift; an improvement is not. A predicted number is a loss if its error is
above a threshold that follows the errors slowly (`number_losses`). Losses are those of the recorded answers, in
the order of the stream, whichever version gave them. A detector never resets weights: it reports
what changed, where and by how much, and a model that acts on it compares what it has learned with its recent examples.
One change raises many alarms, of several detectors and classes: those that follow one another within QUIET events
are of one change.
All state is numbers and depends on the entries alone. Feedback that is retracted later still counts,
because the answer was given.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import quantiles

import numpy as np

from online.learning.detectors import Adwin, ChangePoint, Cusum, Kswin, Shift
from online.models import Options, StatePart, input_options, pack_json, parse_number, spec_of, unpack_json
from online.models.encoders.text import TEXT_WIDTH
from online.schemas.events import Event, is_positive
from online.schemas.json_values import JSONArray, JSONObject
from online.scoring.drift_changes import QUIET, Alarm, AlarmKind

DELTA = 0.002  # for the model's losses, checked at every 32nd: river's default
CLASS_DELTA = 0.002  # for the losses of one class, checked at every wrong answer
MAX_CLASSES = 4_096  # classes with a detector of their own
ALARMS_KEPT = 1_000


# Losses of 0 and 1 for a model that predicts numbers, so that a detector of rising losses can observe it.
#
#     recorded number, right number --> |error| --above the threshold--> 1, else 0
#
# The threshold follows the upper quartile of the errors slowly (a quantile by stochastic approximation,
# in the logarithm, so that the unit of the numbers does not matter). A rise of the errors is a rise of
# the losses until the threshold has followed, after some hundreds of numbers. After an improvement the
# losses fall and come back to a quarter: that is no drift, and `is_drift` says so. A detector finds
# one change several times while its window shrinks; it is reported once.

NOMINAL = 0.25  # share of errors above the threshold in a world that stands still
FIRST = 64  # errors that fix the first threshold; they are no losses
RATE = 0.004  # of the threshold's way, per error
LEAST_RISE = 1.5  # times the nominal share, below which more losses are no drift
TINY = 1e-300


class NumberLosses:
    """first: the errors so far, until there are enough for a threshold. threshold: its logarithm; None before.

    reported: the offset at which a change was last reported.
    """

    def __init__(self) -> None:
        self.first: list[float] = []
        self.threshold: float | None = None
        self.reported = -1

    def add_all(self, events: Sequence[Event]) -> list[int | None]:
        """Return the loss of each event's recorded answer, in order; None if there is none yet."""
        return [None if error is None else self._add(error) for error in map(compute_error, events)]

    def _add(self, error: float) -> int | None:
        size = math.log(max(error, TINY))
        if self.threshold is None:
            self.first.append(size)
            if len(self.first) == FIRST:
                self.threshold, self.first = quantiles(self.first, n=4)[2], []
            return None
        loss = int(size > self.threshold)
        self.threshold += RATE * (loss - NOMINAL)
        return loss

    def is_drift(self, change: ChangePoint, offset: int) -> bool:
        """Return whether a change of the losses, found at `offset`, is a rise of the errors that was not reported yet."""
        if change.after <= LEAST_RISE * NOMINAL or change.since <= self.reported:
            return False
        self.reported = offset
        return True

    def numbers(self) -> JSONArray:
        """Return the state as JSON values."""
        return [self.first, self.threshold, self.reported]

    def restore(self, numbers: JSONArray) -> None:
        """Adopt what `numbers` returned."""
        self.first, self.threshold, self.reported = numbers


def compute_error(event: Event) -> float | None:
    """Return how far the recorded number was from the right one; None without an answer or a label."""
    if event.choice is None or event.kind != "label":
        return None
    try:
        return abs(parse_number(event.choice) - parse_number(event.label))
    except ValueError:
        return None  # no number: the learner refuses such a label


class DriftMonitor:
    """All detectors of one model, which observe its entries in order.

    alarms: the newest first alarms of a change, oldest first. alarm_count: the number of changes so far. raised: the
    newest of all alarms.
    """

    def __init__(self, kind: str, options: Options) -> None:
        self.numbers = NumberLosses() if spec_of(kind).predicts_numbers else None  # these are near or far
        self.soon = Cusum()
        self.losses = Adwin(DELTA, clock=32)
        self.classes: dict[str, Adwin] = {}
        self.dtype, width = find_input_format(kind, options)
        self.features = Kswin(width) if width else None
        self.alarms: list[Alarm] = []
        self.raised: list[Alarm] = []
        self.alarm_count = 0

    def observe(self, entry: Event) -> list[Alarm]:
        """Return the alarms that this entry raises, whether or not the model can learn it."""
        return [alarm for _, alarms in self.observe_all([entry]) for alarm in alarms]

    def observe_all(self, entries: Sequence[Event]) -> list[tuple[int, list[Alarm]]]:
        """Observe entries in order; return (index of the entry, its alarms) for each that raises any."""
        found: dict[int, list[Alarm]] = {}
        for index, alarm in (*self._observe_losses(entries), *self._observe_features(entries)):
            found.setdefault(index, []).append(alarm)
        for index in sorted(found):
            for alarm in found[index]:
                self._note(alarm)
        return sorted(found.items())

    def _note(self, alarm: Alarm) -> None:
        if not self.raised or alarm.offset - self.raised[-1].offset >= QUIET:
            self.alarms = [*self.alarms, alarm][-ALARMS_KEPT:]
            self.alarm_count += 1
        self.raised = [*self.raised, alarm][-ALARMS_KEPT:]

    def begins_change(self, alarm: Alarm) -> bool:
        """Return whether an alarm that was just raised is the first of its change."""
        return alarm in self.alarms

    def _observe_losses(self, entries: Sequence[Event]) -> Iterator[tuple[int, Alarm]]:
        if self.numbers is not None:
            yield from self._observe_numbers(self.numbers, entries)
            return
        losses = [compute_loss(entry) for entry in entries]
        places = [index for index, loss in enumerate(losses) if loss is not None]
        of_class: dict[str, list[int]] = {}
        for index in places:
            of_class.setdefault(entries[index].label, []).append(index)
        yield from self._add_soon(entries, losses, places)
        yield from self._add_losses(self.losses, entries, losses, places, None)
        for label, indices in of_class.items():
            if label not in self.classes and len(self.classes) < MAX_CLASSES:
                self.classes[label] = Adwin(CLASS_DELTA, clock=0)
            if label in self.classes:
                yield from self._add_losses(self.classes[label], entries, losses, indices, label)

    def _observe_numbers(self, numbers: NumberLosses, entries: Sequence[Event]) -> Iterator[tuple[int, Alarm]]:
        losses = numbers.add_all(entries)
        places = [index for index, loss in enumerate(losses) if loss is not None]
        offsets = [entries[index].offset for index in places]
        for at, change in self.losses.add_all([losses[index] or 0 for index in places], offsets):
            if numbers.is_drift(change, offsets[at]):
                yield places[at], self._describe_rise(offsets[at], "loss", None, change)

    def _add_soon(
        self, entries: Sequence[Event], losses: Sequence[int | None], places: list[int]
    ) -> Iterator[tuple[int, Alarm]]:
        for index in places:
            entry = entries[index]
            change = self.soon.add(losses[index] or 0, entry.label, entry.offset)
            if change is not None:
                yield index, self._describe_rise(entry.offset, "loss", None, change)

    def _add_losses(
        self, adwin: Adwin, entries: Sequence[Event], losses: Sequence[int | None], places: list[int], label: str | None
    ) -> Iterator[tuple[int, Alarm]]:
        """Add the losses at some places. label: of the class that the detector observes, None for all."""
        offsets = [entries[index].offset for index in places]
        for at, change in adwin.add_all([losses[index] or 0 for index in places], offsets):
            yield places[at], self._describe_rise(offsets[at], "loss" if label is None else "class", label, change)

    @staticmethod
    def _describe_rise(offset: int, what: AlarmKind, label: str | None, change: ChangePoint) -> Alarm:
        before, after = round(change.before, 6), round(change.after, 6)
        size = round(change.after - change.before, 6)
        return Alarm(offset, what, label, None, change.since, before, after, size, change.window)

    def _observe_features(self, entries: Sequence[Event]) -> Iterator[tuple[int, Alarm]]:
        if self.features is None:
            return
        size = self.features.width * self.dtype.itemsize
        usable = [index for index, e in enumerate(entries) if len(e.features) == size and e.is_feedback]
        if not usable:
            return
        rows_BD = np.frombuffer(b"".join(entries[index].features for index in usable), self.dtype)
        offsets = [entries[index].offset for index in usable]
        for place, shift in self.features.add(rows_BD.reshape(len(usable), -1), offsets):
            yield usable[place], self._describe_shift(offsets[place], shift)

    @staticmethod
    def _describe_shift(offset: int, shift: Shift) -> Alarm:
        direction, distance, change = shift
        before, after = round(change.before, 6), round(change.after, 6)
        size = round(distance, 6)
        return Alarm(offset, "features", None, direction, change.since, before, after, size, change.window)

    # state

    def part(self) -> StatePart:
        """Return the detectors' state as a part of a snapshot."""
        meta: JSONObject = {
            "losses": self.losses.numbers(),
            "classes": [[label, adwin.numbers()] for label, adwin in sorted(self.classes.items())],
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "raised": [asdict(alarm) for alarm in self.raised],
            "soon": self.soon.numbers(),
            "told": self.alarm_count,
        }
        if self.numbers is not None:
            meta["numbers"] = self.numbers.numbers()
        tensors = self.features.tensors() if self.features is not None else {}
        return StatePart({"meta": pack_json(meta), **tensors}, serving=False)

    def restore(self, part: StatePart) -> None:
        """Adopt what `part` returned."""
        meta = unpack_json(part.tensors["meta"])
        self.losses.restore(meta["losses"])
        if self.numbers is not None:
            self.numbers.restore(meta["numbers"])
        for label, numbers in meta["classes"]:
            self.classes[label] = Adwin(CLASS_DELTA, clock=0)
            self.classes[label].restore(numbers)
        self.alarms, self.alarm_count = [Alarm(**alarm) for alarm in meta["alarms"]], meta["told"]
        self.raised = [Alarm(**alarm) for alarm in meta["raised"]]
        self.soon.restore(meta["soon"])
        if self.features is not None:
            self.features.restore(part.tensors)


def find_input_format(kind: str, options: Options) -> tuple[np.dtype[np.generic], int]:
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
