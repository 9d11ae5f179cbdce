"""How a ranker chooses among its candidates: the best one, or now and then another, to learn what people think of it.

    candidates --chances of each--> draw (Philox of the prediction's key) --> the choice and its propensity

Every policy first says with which probability it will choose each candidate and then draws from exactly that, so the
propensity that is logged is the true one. K candidates, the best first.

    greedy     the best                                                                        propensity 1
    epsilon    another one, any of them alike, in `epsilon` of the answers                      closed form
    squarecb   the others by 1 / (K + gamma * what they promise less) (Foster & Rakhlin 2020)   closed form
    lin_ts     as often as they win when the means behind the scores are drawn from their       counted in `draws`,
               posterior (Thompson 1933; Agrawal & Goyal 2013)                                  epsilon as a floor
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

POLICIES = ("greedy", "epsilon", "squarecb", "lin_ts")
POLICY_OPTIONS: dict[str, Any] = {
    "policy": "greedy",  # how to choose among the candidates: greedy, epsilon, squarecb or lin_ts
    "epsilon": 0.05,  # epsilon, lin_ts: the share of answers drawn from all candidates alike
    "gamma": 500.0,  # squarecb: the larger, the greedier
    "draws": 64,  # lin_ts: posterior draws behind a propensity
}


@dataclass(frozen=True, slots=True)
class Policy:
    """Raises ValueError for a name that does not exist or an option out of its range."""

    name: str
    epsilon: float
    gamma: float
    draws: int

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise ValueError(f"unknown policy {self.name!r}; one of {', '.join(POLICIES)}")
        if not (0 <= self.epsilon <= 1 and self.gamma > 0 and self.draws > 0):
            raise ValueError(
                f"epsilon must lie in [0, 1], gamma and draws above 0, not {self.epsilon}, {self.gamma}, {self.draws}"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Policy":
        return cls(options["policy"], options["epsilon"], options["gamma"], options["draws"])

    def choose(self, rewards_K: Floats, scores_K: Floats, doubts_K: Floats, key: int) -> tuple[int, float]:
        """The place of the choice and its propensity.

        rewards: expected, in [0, 1]; scores with their standard deviations; key: at least 0, below 2^128.
        """
        rng = np.random.Generator(np.random.Philox(key=key))
        match self.name:
            case "greedy":
                return 0, 1.0
            case "epsilon":
                return drawn(with_floor(np.eye(1, len(scores_K))[0], self.epsilon), rng)
            case "squarecb":
                return drawn(inverse_gaps(rewards_K, self.gamma), rng)
            case _:
                return drawn(with_floor(wins(scores_K, doubts_K, self.draws, rng), self.epsilon), rng)


def drawn(chances: Floats, rng: np.random.Generator) -> tuple[int, float]:
    """One place, drawn with these probabilities, and its own."""
    upto = np.cumsum(chances)
    place = int(np.searchsorted(upto, rng.random() * upto[-1], side="right"))
    return place, float(chances[place])


def with_floor(chances: Floats, epsilon: float) -> Floats:
    mixed: Floats = (1 - epsilon) * chances + epsilon / len(chances)
    return mixed


def inverse_gaps(rewards: Floats, gamma: float) -> Floats:
    """Inverse gap weighting: the best, which comes first, gets what the others leave."""
    chances: Floats = 1 / (len(rewards) + gamma * (rewards[0] - rewards))
    chances[0] = 1 - chances[1:].sum()
    return chances


def wins(scores: Floats, doubts: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """The share of draws in which each is the best. Given these draws it is the exact probability of what follows."""
    sampled = scores + doubts * rng.standard_normal((draws, len(scores)))
    share: Floats = np.bincount(sampled.argmax(1), minlength=len(scores)) / draws
    return share


def draw_key(prediction_id: str) -> int:
    """What a policy that explores draws with: the log's own id, so that the draw can be made again."""
    return int.from_bytes(hashlib.sha256(prediction_id.encode()).digest()[:8], "little")
