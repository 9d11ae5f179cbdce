"""Measures how well the probabilities of a model's answers agree with what was right."""

import math
from dataclasses import dataclass, field

from online.models import Answer
from online.scoring.score import Figures

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
        full = [(n, c / n, r / n) for n, c, r in zip(self.sizes, self.chances, self.rights, strict=True) if n]
        return [(count, round(chance, 6), round(right, 6)) for count, chance, right in full]

    def figures(self) -> Figures:
        if not self.count:
            return {"log_loss": None, "brier": None, "ece": None}
        gaps = sum(abs(chance - right) for chance, right in zip(self.chances, self.rights, strict=True))
        figures = {"log_loss": self.surprise, "brier": self.brier, "ece": gaps}
        return {name: round(value / self.count, 6) for name, value in figures.items()}
