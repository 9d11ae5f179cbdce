"""Scores a model that predicts classes or chooses replies."""

from collections import Counter, deque
from collections.abc import Mapping

from online.evaluation.scoring.calibration import Calibration
from online.evaluation.scoring.score import (
    BaselineAnswers,
    Figures,
    PendingOutcome,
    ScoreDetails,
    ServedScore,
    add_lateness,
)
from online.models import Answer
from online.prequential import Baselines, Curve, Hits, judge_answers, names_right_answer
from online.schemas.events import Event

WINDOW = 1_000  # judged examples of the windowed accuracy


FADING = 0.999


class ClassScore:
    """Accuracy, agreement and calibration of classes or replies."""

    def __init__(self) -> None:
        self.hits = {name: Hits() for name in ("model", "served", "frozen", "no_change", "majority")}
        self.answered = 0
        self.confusion = Counter[tuple[str, str | None]]()  # (right, answered)
        self.calibration, self.served, self.curve = Calibration(), ServedScore(), Curve()
        self.window = deque[bool](maxlen=WINDOW)
        self.faded, self.fading = 0.0, 0.0
        self.baselines = Baselines()

    def observe(self, label: str) -> None:
        self.baselines.observe(label)

    def guesses(self) -> BaselineAnswers:
        return self.baselines.guesses()

    def add(
        self, event: Event, outcome: PendingOutcome, offset: int = 0, at: str | None = None, late: float | None = None
    ) -> float | None:
        up = names_right_answer(event)
        answers = {"model": outcome.answer.choice, **outcome.guesses}
        if outcome.served is not None:
            answers["served"] = outcome.served.choice
            self.served.add(up and event.label == outcome.served.choice, outcome)
        if outcome.frozen is not None:
            answers["frozen"] = outcome.frozen.choice
        found = judge_answers(event, answers)
        for name, right in found.items():
            self.hits[name].add(right > 0)
        self.curve.add(add_lateness(found, late), offset, at)
        if "model" in found:
            self._model(found["model"] > 0, event.label if up else None, outcome.answer)
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
            "kappa_temporal": compute_kappa(accuracy, no_change),
        }
        return {**figures, **compute_agreement(self.confusion), **self.calibration.figures()}

    def details(self) -> ScoreDetails:
        reliability = self.calibration.bins()
        return ScoreDetails([*self.curve.segments()], *self.served.counts(), self.per_label(), reliability)

    def per_label(self) -> dict[str, dict[str, float]]:
        """class -> how often it was the right one, and the model's recall and precision of it."""
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


def compute_kappa(accuracy: float | None, chance: float | None) -> float | None:
    """Kappa against a baseline (Bifet et al. 2015): 0 is as good as it, 1 is perfect."""
    if accuracy is None or chance is None or chance == 1:
        return None
    return round((accuracy - chance) / (1 - chance), 6)


def compute_agreement(confusion: Mapping[tuple[str, str | None], int]) -> Figures:
    """Return river's metrics of the confusion matrix. No answer counts as a class of its own."""
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
