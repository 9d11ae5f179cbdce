"""Prequential replay: predict, score, then learn, in the order it happened.

    source --line--> encode (or the logged features) --> predict --> score --> Pupil.apply

The Pupil is the learner's own, so that replaying a service's log ends in the very state its live model has.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from online.errors import BadInput
from online.evaluation.sources import Line, Source
from online.learning.drift import Alarm
from online.learning.learner import Pupil
from online.models import Encoder, number_of
from online.models.encoder import encoder
from online.schemas import Entry, Target
from online.settings import Drift
from online.workspace import cache_folder

TEXTS_OR_TABLES_ONLY = ("ranker", "river")  # every other kind has an option `input` and reads whatever a source holds


@dataclass(slots=True)
class Score:
    """Counts of what was right. no_change predicts the last label, majority the most frequent one so far."""

    rated: int = 0
    right: int = 0
    no_change: int = 0
    majority: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    last: str | None = None

    def add(self, choice: str | None, label: str) -> None:
        self.rated += 1
        self.right += choice == label
        self.no_change += self.last == label
        self.majority += bool(self.seen) and self.seen.most_common(1)[0][0] == label
        self.seen[label] += 1
        self.last = label

    def figures(self) -> dict[str, float | None]:
        def ratio(count: int) -> float | None:
            return round(count / self.rated, 6) if self.rated else None

        return {
            "accuracy": ratio(self.right),
            "no_change_accuracy": ratio(self.no_change),
            "majority_accuracy": ratio(self.majority),
        }


@dataclass(slots=True)
class NumberScore:
    """Errors, from the first number that is predicted on. no_change predicts the last number, mean that of all so far.

    scatter: sum of squared distances from the mean of what was scored (Welford 1962), for R2.
    """

    rated: int = 0
    absolute: float = 0.0
    squared: float = 0.0
    no_change: float = 0.0
    mean: float = 0.0
    scatter: float = 0.0
    scored_mean: float = 0.0
    seen: int = 0
    seen_mean: float = 0.0
    last: float = 0.0

    def add(self, choice: str | None, label: str) -> None:
        value = number_of(label)
        if choice is not None:
            self._score(float(choice), value)
        self.seen += 1
        self.seen_mean += (value - self.seen_mean) / self.seen
        self.last = value

    def _score(self, predicted: float, value: float) -> None:
        self.rated += 1
        self.absolute += abs(predicted - value)
        self.squared += (predicted - value) ** 2
        self.no_change += abs(self.last - value)
        self.mean += abs(self.seen_mean - value)
        away = value - self.scored_mean
        self.scored_mean += away / self.rated
        self.scatter += away * (value - self.scored_mean)

    def figures(self) -> dict[str, float | None]:
        def average(total: float) -> float | None:
            return float(f"{total / self.rated:.6g}") if self.rated else None

        mean_square = average(self.squared)
        return {
            "mae": average(self.absolute),
            "rmse": None if mean_square is None else float(f"{mean_square**0.5:.6g}"),
            "r2": round(1 - self.squared / self.scatter, 6) if self.scatter else None,
            "no_change_mae": average(self.no_change),
            "mean_mae": average(self.mean),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """figures: what the score knows, by name; None while nothing was scored."""

    examples: int
    figures: dict[str, float | None]
    examples_per_second: float
    state_sha256: str
    drift: list[Alarm]


class Replay:
    """One source through one model. `run` may be interrupted; `report` then tells what is known so far."""

    def __init__(
        self, source: Source, kind: str, options: Mapping[str, Any], device: str = "cpu", drift: Drift | None = None
    ) -> None:
        """drift: None is what the log's own service did where its kind is replayed, otherwise watch."""
        if source.numbers and kind != "regressor":
            raise BadInput(f"{source.name} holds numbers to predict: replay it with --model regressor")
        self.source = source
        self.options = self._options(kind, options)
        self.logged = source.header.get("kind") == kind or (reads_any(kind) and self._same_input())
        self.encoder = None if self.logged else self._encoder(kind)
        own: Drift = source.header.get("drift", "watch") if source.header.get("kind") == kind else "watch"
        self.pupil = Pupil(kind, self.options, device, self._history, drift=drift or own)
        self.score = NumberScore() if kind == "regressor" else Score()
        self.examples, self.seconds = 0, 0.0

    def _options(self, kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The log's own options where its kind is replayed, otherwise what the source's inputs call for."""
        if self.source.header.get("kind") == kind:
            return {**self.source.header["options"], **options}
        if kind == "ranker" and not self.source.header:
            raise BadInput(
                "a ranker replays a log of its own service; labelled data is for a classifier or a river model"
            )
        if reads_any(kind):
            inputs = (
                {"input": self.source.input, "size": self.source.size} if self.source.input else self._logged_input()
            )
            return {**inputs, **options}
        return dict(options)

    def _logged_input(self) -> dict[str, Any]:
        options = self.source.header["options"]
        return {name: options[name] for name in ("input", "size") if name in options} or {"input": "text"}

    def _same_input(self) -> bool:
        return bool(self.source.header) and self.options.get("input", "text") == self._logged_input().get(
            "input", "text"
        )

    def _encoder(self, kind: str) -> Encoder:
        made: Encoder = encoder({"input": "table"} if kind == "river" else self.options, cache_folder())
        return made

    def run(self, tick: Callable[[int], None]) -> None:
        """Go through the source; `tick` is told after every line how many there were."""
        started = time.perf_counter()
        try:
            for number, line in enumerate(self.source.lines(), 1):
                self._take(line)
                tick(number)
        finally:
            self.seconds = time.perf_counter() - started

    def _take(self, line: Line) -> None:
        entry = self._encoded(line)
        if line.refused is not None:
            self.pupil.refused[entry.offset] = line.refused
        elif line.rated:
            entry = self._scored(entry)
        self.pupil.apply([entry])
        self.examples += line.rated

    def _scored(self, entry: Entry) -> Entry:
        """The entry with what was answered; the log's own answer, where it has one, is what drift is judged by.

        Only what tells the right answer can be scored: a label, a correction, a reward for what was right.
        """
        event = entry.event
        if event.kind not in ("label", "correction") and not (event.kind == "reward" and event.reward >= 0.5):
            return entry
        choice = self.pupil.model.predict([event.features])[0].choice
        try:
            self.score.add(choice, event.label)
        except ValueError as error:
            raise BadInput(f"{self.source.name}, example {entry.offset}: {error}") from None
        return entry if self.source.header else replace(entry, event=replace(event, choice=choice))

    def _encoded(self, line: Line) -> Entry:
        event = line.entry.event
        if event.target is not None and self.encoder is not None:
            taken_back = self._encoded(self._line_at(event.target.offset))
            target = Target(taken_back.offset, taken_back.event)
            return replace(line.entry, event=replace(event, features=taken_back.event.features, target=target))
        if self.encoder is None or line.instance is None:
            return line.entry
        try:
            features = self.encoder.encode([line.instance])[0]
        except ValueError as error:
            raise BadInput(
                f"{self.source.name}, example {line.entry.offset}: {str(error).removeprefix('instance 0 ')}"
            ) from None
        return replace(line.entry, event=replace(event, features=features))

    def _line_at(self, offset: int) -> Line:
        return next(line for line in self.source.lines() if line.entry.offset == offset)

    def _history(self, until: int) -> Iterator[Entry]:
        for line in self.source.lines():
            if line.entry.offset > until:
                return
            yield self._encoded(line)

    def report(self) -> Report:
        rate = round(self.examples / self.seconds, 1) if self.seconds else 0.0
        fingerprint, alarms = self.pupil.model.fingerprint(), self.pupil.monitor.alarms
        return Report(self.examples, self.score.figures(), rate, fingerprint, alarms)


def reads_any(kind: str) -> bool:
    return kind not in TEXTS_OR_TABLES_ONLY
