"""A sequential test of whether one model errs less than another.

A bet's wealth is multiplied by 1 + stake * gain on each scored example and never falls below 1
before it is multiplied (a CUSUM e-detector: Shin, Ramdas & Rinaldo 2023). While the first model is
no better than the second, the mean wealth reaches `patience` at most once in `patience` scored
examples on average, however often it is looked at.
"""

from dataclasses import dataclass, field

from online.models.options import Option

STAKES = (0.05, 0.1, 0.2, 0.4)  # small stakes find small differences, large stakes find large ones soon
FACTORS = {gain: [1 + stake * gain for stake in STAKES] for gain in (-1, 0, 1)}  # of the wealth, by the gain


PATIENCE = Option(
    "patience",
    1_000,
    "Scored examples between two changes that luck alone would cause. Lower it to change sooner and err more often.",
    unit="examples",
    low=1,
)
SCORE_EVERY = Option(
    "score_every",
    1,
    "Score only the examples whose offset it divides. Raise it when scoring a large model for each example is slow.",
    unit="events",
    low=1,
)


@dataclass(slots=True)
class Bets:
    """A bet that one model errs less than another. wealth: one number per stake."""

    wealth: list[float] = field(default_factory=lambda: [1.0] * len(STAKES))

    def bet(self, gain: int) -> float:
        """Return the mean wealth after another example. gain: 1 if it alone was right, -1 if it alone was wrong."""
        pairs = zip(self.wealth, FACTORS[gain], strict=True)
        self.wealth = [wealth * factor if wealth > 1.0 else factor for wealth, factor in pairs]
        return self.mean

    @property
    def mean(self) -> float:
        """The mean wealth."""
        return sum(self.wealth) / len(STAKES)

    def begin_again(self) -> None:
        """Return to the initial wealth."""
        self.wealth = [1.0] * len(STAKES)
