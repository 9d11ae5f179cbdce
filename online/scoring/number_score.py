"""Scores a model that predicts numbers."""

from collections import Counter

from online.models import parse_number
from online.schemas.events import Event
from online.scoring.baseline_lead import Lead, LeadCounts
from online.scoring.prequential import Curve, HitCounts, NumberBaselines
from online.scoring.score import (
    BaselineAnswers,
    Figures,
    JudgedOutcomes,
    NumberPairs,
    PendingOutcome,
    ScoreDetails,
    ServedScore,
    add_lateness,
    collect_leads,
)


class NumberScore:
    """Errors of predicted numbers, from the first prediction on."""

    def __init__(self) -> None:
        from river import metrics

        self.mae = {name: metrics.MAE() for name in ("model", "served", "frozen", "no_change", "mean")}
        self.judged = Counter[str]()
        self.rmse, self.r2, self.served, self.curve = metrics.RMSE(), metrics.R2(), ServedScore(), Curve()
        self.covered, self.pairs = HitCounts(), NumberPairs()
        self.baselines = NumberBaselines()
        self.ahead = {name: LeadCounts(numbers=True) for name in ("no_change", "mean")}

    def observe(self, label: str) -> None:
        """Show a right number to the baselines."""
        self.baselines.observe(parse_number(label))

    def guesses(self) -> BaselineAnswers:
        """Return what the baselines would answer now."""
        return self.baselines.guesses()

    def add_all(self, judged: JudgedOutcomes) -> list[float | None]:
        """Score outcomes; return the error of each, None for one that does not judge."""
        errors = [self._add(*pair) for pair in zip(judged.events, judged.outcomes, strict=True)]
        counted = [index for index, each in enumerate(errors) if each]
        names = {name: None for each in errors for name in each}
        scores = {name: [errors[index].get(name) for index in counted] for name in names}
        for name, counts in self.ahead.items():
            if name in scores:
                counts.add_all(scores["model"], scores[name])
        self.pairs.add_all(
            [(parse_number(judged.events[n].label), float(judged.outcomes[n].answer.choice or 0)) for n in counted]
        )
        late = JudgedOutcomes(lateness=[judged.lateness[index] for index in counted])
        offsets, times = ([column[index] for index in counted] for column in (judged.offsets, judged.times))
        self.curve.add_all(add_lateness(scores, late), offsets, times)  # type: ignore[arg-type]
        return [each.get("model") for each in errors]

    def _add(self, event: Event, outcome: PendingOutcome) -> dict[str, float]:
        """Return the error of each predictor; none if there was no answer, or nothing to guess from."""
        value = parse_number(event.label)
        self.served.add(False, outcome)  # a number is never simply right or wrong
        if outcome.answer.choice is None or not outcome.guesses:
            return {}
        answers = {"model": float(outcome.answer.choice or 0), **outcome.guesses}
        for name, answer in (("served", outcome.served), ("frozen", outcome.frozen)):
            if answer is not None and answer.choice is not None:
                answers[name] = float(answer.choice)
        for name, number in answers.items():
            self.judged[name] += 1
            self.mae[name].update(value, number)
        self.rmse.update(value, answers["model"])
        self.r2.update(value, answers["model"])
        if outcome.answer.interval is not None:
            low, high = outcome.answer.interval
            self.covered.add(low <= value <= high)
        return {name: abs(number - value) for name, number in answers.items()}

    def figures(self) -> Figures:
        """Return the figures by name."""
        judged = self.judged["model"]
        errors = {name: round_digits(metric.get()) if self.judged[name] else None for name, metric in self.mae.items()}
        return {
            "judged": judged,
            "mae": errors["model"],
            **{f"{name}_mae": error for name, error in errors.items() if name != "model"},
            **{f"{name}_judged": self.judged[name] for name in errors if name != "model"},
            "rmse": round_digits(self.rmse.get()) if judged else None,
            "r2": round(self.r2.get(), 6) if judged > 1 else None,
            "covered": self.covered.share,
            "served_rated": self.served.hits.judged,
        }

    def leads(self) -> list[Lead]:
        """Return the leads of the baselines."""
        return collect_leads(self.ahead)

    def details(self) -> ScoreDetails:
        """Return the details that plots and tables show."""
        _, users = self.served.counts()
        kept = {"pairs": self.pairs.pairs, "pairs_every": self.pairs.every}
        return ScoreDetails([*self.curve.segments()], {}, users, **kept)  # type: ignore[arg-type]  # no version was right or wrong


def round_digits(value: object) -> float:
    """Return a number with six significant digits."""
    return float(f"{value:.6g}")
