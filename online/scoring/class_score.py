"""Scores a model that predicts classes or chooses replies."""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from online.models import Answer
from online.schemas.json_values import JSONArray
from online.scoring.baseline_lead import Lead, LeadCounts
from online.scoring.confusion import build_confusion
from online.scoring.prequential import Baselines, Curve, HitCounts, names_right_answer
from online.scoring.score import (
    LEARNED_BASELINE,
    MOST_FREQUENT,
    BaselineAnswers,
    Figures,
    JudgedOutcomes,
    PendingOutcome,
    ScoreDetails,
    ServedScore,
    add_lateness,
    collect_leads,
)

WINDOW = 1_000  # judged examples of the windowed accuracy


FADING = 0.999
BASELINES = ("no_change", MOST_FREQUENT, LEARNED_BASELINE)


class ClassScore:
    """Accuracy, agreement and calibration of classes or replies."""

    def __init__(self) -> None:
        self.hits = {name: HitCounts() for name in ("model", "served", "frozen", "no_change", MOST_FREQUENT)}
        self.answered = 0
        self.confusion = Counter[tuple[str, str | None]]()  # (right, answered)
        self.calibration, self.served, self.curve = Calibration(), ServedScore(), Curve()
        self.window = deque[bool](maxlen=WINDOW)
        self.faded, self.fading = 0.0, 0.0
        self.affirmed = 0
        self.baselines = Baselines()
        self.ahead = {name: LeadCounts() for name in BASELINES}

    def observe(self, label: str) -> None:
        """Show a right answer to the baselines."""
        self.baselines.observe(label)

    def guesses(self) -> BaselineAnswers:
        """Return what the baselines would answer now."""
        return self.baselines.guesses()

    def add_all(self, judged: JudgedOutcomes) -> list[float | None]:
        """Score outcomes; return the loss of each, None for one that does not judge."""
        ups = [names_right_answer(event) for event in judged.events]
        labels = [event.label for event in judged.events]
        found = {
            name: judge_choices(ups, labels, choices) for name, choices in collect_choices(judged.outcomes).items()
        }
        for name, scores in found.items():
            self.hits.setdefault(name, HitCounts()).add_all(scores)
            if name in self.ahead:
                self.ahead[name].add_all(found["model"], scores, found.get(LEARNED_BASELINE))
        self.affirmed += sum(up and event.kind == "reward" for up, event in zip(ups, judged.events, strict=True))
        for up, label, outcome in zip(ups, labels, judged.outcomes, strict=True):
            if outcome.served is not None:
                self.served.add(up and label == outcome.served.choice, outcome)
        self.curve.add_all(add_lateness(found, judged), judged.offsets, judged.times)
        answers = [outcome.answer for outcome in judged.outcomes]
        self._add_models(found["model"], answers)
        self._add_truths([pair for pair, up in zip(zip(answers, labels, strict=True), ups, strict=True) if up])
        return [None if score is None else 1 - score for score in found["model"]]

    def _add_models(self, scores: Sequence[float | None], answers: Sequence[Answer]) -> None:
        faded, fading = self.faded, self.fading
        rights = [score > 0 for score in scores if score is not None]
        for right in rights:
            faded, fading = faded * FADING + right, fading * FADING + 1
        self.faded, self.fading = faded, fading
        self.window.extend(rights)
        self.answered += sum(
            score is not None and answer.choice is not None for score, answer in zip(scores, answers, strict=True)
        )

    def _add_truths(self, pairs: Sequence[tuple[Answer, str]]) -> None:
        """pairs: answers, each with the right class."""
        self.confusion.update((truth, answer.choice) for answer, truth in pairs)
        for answer, truth in pairs:
            self.calibration.add(answer, truth)

    def figures(self) -> Figures:
        """Return the figures by name."""
        accuracy, last_class = self.hits["model"].share, self.ahead["no_change"].lead("no_change")
        figures: Figures = {
            "judged": self.hits["model"].judged,
            "right": self.hits["model"].right,
            "accuracy": accuracy,
        }
        others = {name: hits for name, hits in self.hits.items() if name != "model"}
        figures |= {f"{name}_accuracy": hits.share for name, hits in others.items()}
        figures |= {f"{name}_judged": hits.judged for name, hits in others.items()}
        figures |= {
            "served_rated": self.served.hits.judged,
            "served_right": self.served.hits.right,
            "answered": round(self.answered / self.hits["model"].judged, 6) if self.hits["model"].judged else None,
            "windowed_accuracy": round(sum(self.window) / len(self.window), 6) if self.window else None,
            "fading_accuracy": round(self.faded / self.fading, 6) if self.fading else None,
            "kappa_temporal": compute_kappa(last_class.model, last_class.other) if last_class else None,
        }
        return {**figures, **compute_agreement(self.confusion), **self.calibration.figures()}

    def leads(self) -> list[Lead]:
        """Return the leads of the baselines."""
        return collect_leads(self.ahead)

    def details(self) -> ScoreDetails:
        """Return the details that plots and tables show."""
        reliability = self.calibration.bins()
        confusion = build_confusion(self.confusion)
        return ScoreDetails(
            [*self.curve.segments()],
            *self.served.counts(),
            self.per_label(),
            reliability,
            confusion,
            affirmed=self.affirmed,
        )

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


NOTHING = object()  # stands for the answer of a predictor that gave none


def collect_choices(outcomes: Sequence[PendingOutcome]) -> dict[str, list[object]]:
    """Return the choice of each predictor for each outcome; NOTHING where it did not answer."""
    choices: dict[str, JSONArray] = {"model": [outcome.answer.choice for outcome in outcomes]}
    for name in BASELINES:
        if name != LEARNED_BASELINE or any(name in outcome.guesses for outcome in outcomes):
            choices[name] = [outcome.guesses.get(name, NOTHING) for outcome in outcomes]
    if any(outcome.served is not None for outcome in outcomes):
        choices["served"] = [NOTHING if each.served is None else each.served.choice for each in outcomes]
    if any(outcome.frozen is not None for outcome in outcomes):
        choices["frozen"] = [NOTHING if each.frozen is None else each.frozen.choice for each in outcomes]
    return choices


def judge_choices(ups: Sequence[bool], labels: Sequence[str], choices: Sequence[object]) -> list[float | None]:
    """Return 1 for each choice that is right, 0 for each wrong one, and None where the event does not judge it.

    As `prequential.judge_answers` does for one event. ups: whether each event names the right answer, its label.
    """
    return [
        (1.0 if choice == label else None if choice is NOTHING else 0.0) if up else (0.0 if choice == label else None)
        for up, label, choice in zip(ups, labels, choices, strict=True)
    ]


def compute_kappa(accuracy: float | None, chance: float | None) -> float | None:
    """Kappa against a baseline (Bifet et al. 2015): 0 is as good as it, 1 is perfect."""
    if accuracy is None or chance is None or chance == 1:
        return None
    return round((accuracy - chance) / (1 - chance), 6)


def compute_agreement(confusion: Mapping[tuple[str, str | None], int]) -> Figures:
    """Return Cohen's kappa, the mean recall of the classes that occurred, and the mean F1 of all classes.

    confusion: how often an answer was given where a class was right. No answer counts as a class of its own.
    """
    if not confusion:
        return {"kappa": None, "balanced_accuracy": None, "macro_f1": None}
    places = {label: place for place, label in enumerate(dict.fromkeys(label for pair in confusion for label in pair))}
    matrix_CC = np.zeros((len(places), len(places)))
    for (truth, choice), count in confusion.items():
        matrix_CC[places[truth], places[choice]] += count
    right_C, truth_C, choice_C = matrix_CC.diagonal(), matrix_CC.sum(1), matrix_CC.sum(0)
    total = matrix_CC.sum()
    chance = float(truth_C @ choice_C) / total**2
    kappa = (float(right_C.sum()) / total - chance) / (1 - chance) if chance < 1 else 0.0
    recall = (right_C[truth_C > 0] / truth_C[truth_C > 0]).mean()
    f1 = (2 * right_C / (truth_C + choice_C)).mean()
    found = {"kappa": kappa, "balanced_accuracy": recall, "macro_f1": f1}
    return {name: round(float(value), 6) for name, value in found.items()}


BINS = 15  # of the expected calibration error


MIN_PROBABILITY = 1e-6  # assumed for a class that the answer does not list


@dataclass(slots=True)
class Calibration:
    """Log-loss, Brier score and expected calibration error (Naeini et al. 2015) of probabilities."""

    count: int = 0
    surprise: float = 0.0
    brier: float = 0.0
    sizes: list[int] = field(default_factory=lambda: [0] * BINS)
    chances: list[float] = field(default_factory=lambda: [0.0] * BINS)
    rights: list[int] = field(default_factory=lambda: [0] * BINS)

    def add(self, answer: Answer, truth: str) -> None:
        """Count an answer and the truth."""
        if not answer.candidates:
            return
        chance, squares = MIN_PROBABILITY, 0.0
        for candidate in answer.candidates:
            score = candidate[1]
            squares += score * score
            if candidate[0] == truth:
                chance = max(score, MIN_PROBABILITY)
        self.count += 1
        self.surprise -= math.log(chance)
        self.brier += squares - 2 * chance + 1
        best, top = answer.candidates[0][0], answer.candidates[0][1]
        place = min(int(top * BINS), BINS - 1)
        self.sizes[place] += 1
        self.chances[place] += top
        self.rights[place] += best == truth

    def bins(self) -> list[tuple[int, float, float]]:
        """Return (count, mean probability, share of right answers) of each bin that is not empty."""
        full = [(n, c / n, r / n) for n, c, r in zip(self.sizes, self.chances, self.rights, strict=True) if n]
        return [(count, round(chance, 6), round(right, 6)) for count, chance, right in full]

    def figures(self) -> Figures:
        """Return log loss, Brier score and expected calibration error; None without probabilities."""
        if not self.count:
            return {"log_loss": None, "brier": None, "ece": None}
        gaps = sum(abs(chance - right) for chance, right in zip(self.chances, self.rights, strict=True))
        figures = {"log_loss": self.surprise, "brier": self.brier, "ece": gaps}
        return {name: round(value / self.count, 6) for name, value in figures.items()}
