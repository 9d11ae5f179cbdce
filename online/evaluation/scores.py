"""What a stream of answers and outcomes is worth: counts and sums, in bounded memory.

    Asked --> Said: the answers of every predictor, as they were at that moment
    Told  --> judged: those whose answer the outcome says something about (see `prequential`)

The predictors: the model, what was served when it happened, a frozen copy, no-change (the last label again), majority
(the most frequent so far; for numbers their mean). Every one answers with what it knew when it was asked.
"""

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from online.models import Answer, number_of
from online.prequential import Baselines, Curve, Hits, NumberBaselines, Stretch, judged, tells_what_is_right
from online.schemas import Event

WINDOW = 1_000  # judged examples of the windowed accuracy
FADING = 0.999
BINS = 15  # of the expected calibration error
LEAST_CHANCE = 1e-6  # what a label that was not listed is held to have got
MOST_VERSIONS, MOST_USERS = 4_096, 100_000
LATENESS = "lateness"  # in a curve: seconds from a feedback to the version that had learned it

Figures = dict[str, float | None]
Guesses = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Details:
    """versions, users: of what was served: version -> (rated, right), and how many ratings each user gave.

    labels: label -> count, recall, precision. reliability: (count, mean chance, share right) of each bin of chances.
    """

    curve: list[Stretch]
    versions: dict[int, tuple[int, int]]
    users: dict[str, int]
    labels: dict[str, dict[str, float]] = field(default_factory=dict)
    reliability: list[tuple[int, float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Said:
    """What stands against an outcome. served, version: where somebody was answered. guesses: of the baselines.

    left: outcomes still to come.
    """

    answer: Answer
    left: int
    guesses: Guesses
    frozen: Answer | None = None
    served: Answer | None = None
    version: int = 0
    user: str | None = None


class Score(Protocol):
    curve: Curve

    def saw(self, label: str) -> None:
        """Let the baselines know what was right. Raises ValueError for what it cannot be."""

    def guesses(self) -> Guesses:
        """What the baselines would answer now."""

    def add(
        self, event: Event, said: Said, offset: int = 0, at: str | None = None, late: float | None = None
    ) -> float | None:
        """The model's loss by this outcome; None where it is silent about it.

        offset, at: of the event. late: seconds until it was learned.
        """

    def figures(self) -> Figures:
        """By name; None where nothing was judged."""

    def details(self) -> Details:
        """What figures are made of."""


@dataclass(slots=True)
class Calibration:
    """Log-loss, Brier score and expected calibration error (Naeini et al. 2015) of chances against what was right."""

    count: int = 0
    surprise: float = 0.0
    brier: float = 0.0
    sizes: list[int] = field(default_factory=lambda: [0] * BINS)
    chances: list[float] = field(default_factory=lambda: [0.0] * BINS)
    rights: list[int] = field(default_factory=lambda: [0] * BINS)

    def add(self, answer: Answer, truth: str) -> None:
        if not answer.candidates:
            return
        chance, squares = LEAST_CHANCE, 0.0
        for candidate in answer.candidates:
            score = candidate[1]
            squares += score * score
            if candidate[0] == truth:
                chance = max(score, LEAST_CHANCE)
        self.count += 1
        self.surprise -= math.log(chance)
        self.brier += squares - 2 * chance + 1
        best, top = answer.candidates[0][0], answer.candidates[0][1]
        place = min(int(top * BINS), BINS - 1)
        self.sizes[place] += 1
        self.chances[place] += top
        self.rights[place] += best == truth

    def bins(self) -> list[tuple[int, float, float]]:
        full = [(n, c / n, r / n) for n, c, r in zip(self.sizes, self.chances, self.rights, strict=True) if n]
        return [(count, round(chance, 6), round(right, 6)) for count, chance, right in full]

    def figures(self) -> Figures:
        if not self.count:
            return {"log_loss": None, "brier": None, "ece": None}
        gaps = sum(abs(chance - right) for chance, right in zip(self.chances, self.rights, strict=True))
        figures = {"log_loss": self.surprise, "brier": self.brier, "ece": gaps}
        return {name: round(value / self.count, 6) for name, value in figures.items()}


@dataclass(slots=True)
class Served:
    """What was answered when it happened, counted as the service counts it: every rated answer, whatever the rating."""

    hits: Hits = field(default_factory=Hits)
    stride: int = 1
    versions: dict[int, Hits] = field(default_factory=dict)
    users: Counter[str] = field(default_factory=Counter)

    def add(self, right: bool, said: Said) -> None:
        if said.served is None or said.served.choice is None:
            return
        self.hits.add(right)
        self.versions.setdefault(said.version // self.stride * self.stride, Hits()).add(right)
        if len(self.versions) > MOST_VERSIONS:
            self._widen()
        if said.user is not None:
            known = said.user in self.users or len(self.users) < MOST_USERS
            self.users[said.user if known else "(others)"] += 1

    def told(self) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
        versions = {version: (hits.judged, hits.right) for version, hits in sorted(self.versions.items())}
        return versions, dict(self.users.most_common())

    def _widen(self) -> None:
        self.stride *= 2
        before, self.versions = self.versions, {}
        for version, hits in before.items():
            into = self.versions.setdefault(version // self.stride * self.stride, Hits())
            into.judged, into.right = into.judged + hits.judged, into.right + hits.right


class LabelScore:
    """For labels and for replies."""

    def __init__(self) -> None:
        self.hits = {name: Hits() for name in ("model", "served", "frozen", "no_change", "majority")}
        self.answered = 0
        self.confusion = Counter[tuple[str, str | None]]()  # (right, answered)
        self.calibration, self.served, self.curve = Calibration(), Served(), Curve()
        self.window = deque[bool](maxlen=WINDOW)
        self.faded, self.fading = 0.0, 0.0
        self.baselines = Baselines()

    def saw(self, label: str) -> None:
        self.baselines.saw(label)

    def guesses(self) -> Guesses:
        return self.baselines.guesses()

    def add(
        self, event: Event, said: Said, offset: int = 0, at: str | None = None, late: float | None = None
    ) -> float | None:
        up = tells_what_is_right(event)
        answers = {"model": said.answer.choice, **said.guesses}
        if said.served is not None:
            answers["served"] = said.served.choice
            self.served.add(up and event.label == said.served.choice, said)
        if said.frozen is not None:
            answers["frozen"] = said.frozen.choice
        found = judged(event, answers)
        for name, right in found.items():
            self.hits[name].add(right > 0)
        self.curve.add(with_lateness(found, late), offset, at)
        if "model" in found:
            self._model(found["model"] > 0, event.label if up else None, said.answer)
        return 1 - found["model"] if "model" in found else None

    def _model(self, right: bool, truth: str | None, answer: Answer) -> None:
        self.answered += answer.choice is not None
        self.window.append(right)
        self.faded, self.fading = self.faded * FADING + right, self.fading * FADING + 1
        if truth is not None:
            self.confusion[truth, answer.choice] += 1
            self.calibration.add(answer, truth)

    def figures(self) -> Figures:
        accuracy, no_change = self.hits["model"].share, self.hits["no_change"].share
        figures: Figures = {
            "judged": self.hits["model"].judged,
            "right": self.hits["model"].right,
            "accuracy": accuracy,
        }
        figures |= {f"{name}_accuracy": hits.share for name, hits in self.hits.items() if name != "model"}
        figures |= {
            "served_rated": self.served.hits.judged,
            "served_right": self.served.hits.right,
            "answered": round(self.answered / self.hits["model"].judged, 6) if self.hits["model"].judged else None,
            "windowed_accuracy": round(sum(self.window) / len(self.window), 6) if self.window else None,
            "fading_accuracy": round(self.faded / self.fading, 6) if self.fading else None,
            "kappa_temporal": beyond(accuracy, no_change),
        }
        return {**figures, **agreement(self.confusion), **self.calibration.figures()}

    def details(self) -> Details:
        reliability = self.calibration.bins()
        return Details([*self.curve.stretches()], *self.served.told(), self.per_label(), reliability)

    def per_label(self) -> dict[str, dict[str, float]]:
        """label -> how often it was right, and recall and precision of the model."""
        right = Counter[str]()
        given, found = Counter[str](), Counter[str]()
        for (truth, choice), count in self.confusion.items():
            right[truth] += count
            found[truth] += count if truth == choice else 0
            if choice is not None:
                given[choice] += count
        return {
            label: {
                "count": count,
                "recall": round(found[label] / count, 6),
                "precision": round(found[label] / given[label], 6) if given[label] else 0.0,
            }
            for label, count in right.most_common()
        }


def with_lateness(scores: dict[str, float], late: float | None) -> dict[str, float]:
    return scores if late is None else {**scores, LATENESS: late}


def beyond(accuracy: float | None, chance: float | None) -> float | None:
    """Kappa against a baseline (Bifet et al. 2015): 0 is as good as it, 1 is perfect."""
    if accuracy is None or chance is None or chance == 1:
        return None
    return round((accuracy - chance) / (1 - chance), 6)


def agreement(confusion: Mapping[tuple[str, str | None], int]) -> Figures:
    """River's metrics of the confusion matrix. No answer is an answer of its own there."""
    from river import metrics

    matrix = metrics.ConfusionMatrix()
    for (truth, choice), count in confusion.items():
        matrix.update(truth, choice, count)
    found = {
        "kappa": metrics.CohenKappa(matrix),
        "balanced_accuracy": metrics.BalancedAccuracy(matrix),
        "macro_f1": metrics.MacroF1(matrix),
    }
    return {name: round(float(metric.get()), 6) if confusion else None for name, metric in found.items()}


class NumberScore:
    """For numbers: errors, from the first number that is predicted on."""

    def __init__(self) -> None:
        from river import metrics

        self.mae = {name: metrics.MAE() for name in ("model", "served", "frozen", "no_change", "mean")}
        self.judged = Counter[str]()
        self.rmse, self.r2, self.served, self.curve = metrics.RMSE(), metrics.R2(), Served(), Curve()
        self.covered = Hits()
        self.baselines = NumberBaselines()

    def saw(self, label: str) -> None:
        self.baselines.saw(number_of(label))

    def guesses(self) -> Guesses:
        return self.baselines.guesses()

    def add(
        self, event: Event, said: Said, offset: int = 0, at: str | None = None, late: float | None = None
    ) -> float | None:
        value = number_of(event.label)
        self.served.add(False, said)  # a number is never simply right or wrong
        if said.answer.choice is None or not said.guesses:
            return None
        errors = self._judge(value, said)
        self.curve.add(with_lateness(errors, late), offset, at)
        return errors["model"]

    def _judge(self, value: float, said: Said) -> dict[str, float]:
        answers = {"model": float(said.answer.choice or 0), **said.guesses}
        for name, answer in (("served", said.served), ("frozen", said.frozen)):
            if answer is not None and answer.choice is not None:
                answers[name] = float(answer.choice)
        self.judged.update(answers.keys())
        for name, number in answers.items():
            self.mae[name].update(value, number)
        self.rmse.update(value, answers["model"])
        self.r2.update(value, answers["model"])
        if said.answer.interval is not None:
            low, high = said.answer.interval
            self.covered.add(low <= value <= high)
        return {name: abs(number - value) for name, number in answers.items()}

    def figures(self) -> Figures:
        judged = self.judged["model"]
        errors = {name: short(metric.get()) if self.judged[name] else None for name, metric in self.mae.items()}
        return {
            "judged": judged,
            "mae": errors["model"],
            **{f"{name}_mae": error for name, error in errors.items() if name != "model"},
            "rmse": short(self.rmse.get()) if judged else None,
            "r2": round(self.r2.get(), 6) if judged > 1 else None,
            "covered": self.covered.share,
            "served_rated": self.served.hits.judged,
        }

    def details(self) -> Details:
        _, users = self.served.told()
        return Details([*self.curve.stretches()], {}, users)  # no version was right or wrong


def short(value: Any) -> float:
    return float(f"{value:.6g}")
