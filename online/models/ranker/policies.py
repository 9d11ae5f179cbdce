"""Policies by which a ranker chooses among its candidates: the best one, or sometimes another one, to learn about it.

    plausible candidates --chances of each--> draw (Philox of the prediction's key) --> the choice and its propensity

What is plausible is the same for every policy (exploration.py). Every policy first computes the probability with which it will choose each candidate, and then draws
from exactly these, so the logged propensity is the true one. K candidates, the best first.

    greedy     the best                                                                         propensity 1
    epsilon    a uniformly drawn candidate in a share `epsilon` of the answers                  closed form
    squarecb   the others by 1 / (K + gamma * their gap to the best) (Foster & Rakhlin 2020)    closed form
    lin_ts     as often as they win when the means behind the scores are drawn from their       counted in `draws`,
               posterior (Thompson 1933; Agrawal & Goyal 2013)                                  epsilon as a floor
    optimistic the one that may be the best (`optimism`), in a share `explore_share` of the     closed form,
               answers; the best in the others                                                  epsilon as a floor
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Options
from online.models.kinds import EXPLORE_USER_SHARE
from online.models.options import Option

Floats = NDArray[np.float32 | np.float64]

POLICIES = ("optimistic", "greedy", "epsilon", "squarecb", "lin_ts")
POLICY_OPTIONS = (
    Option(
        "policy",
        "optimistic",
        "How the answer is chosen among the candidates. optimistic: where answers to similar questions are rejected, "
        "replies about which little is known are tried; the others explore without that reason, and greedy never. None tries a reply that is not plausible.",
        choices=POLICIES,
    ),
    Option(
        "optimism",
        1.5,
        "optimistic: the larger, the more an unknown reply counts. 0 is greedy.",
        low=0.0,
        high=1e6,
    ),
    Option(
        "explore_share",
        0.9,
        "optimistic: the largest share of answers that may be another reply than the best one. "
        "Lower it to spare callers; replies whose texts say nothing are then found later.",
        low=0.0,
        high=1.0,
    ),
    Option(
        "explore_user_share",
        EXPLORE_USER_SHARE,
        "The largest share of the answers to one user within an hour that may be another reply than the best one, rounded up, "
        "whatever the policy. The service keeps it, each of its processes for itself; replays do not. Raise it while most replies are unknown.",
        low=0.0,
        high=1.0,
    ),
    Option(
        "explore_below",
        0.8,
        "Chance of the best reply from which nothing else is tried. Lower it to explore less.",
        unit="probability",
        low=0.0,
        high=1.0,
    ),
    Option(
        "explore_floor",
        0.5,
        "A reply is tried only if its own chance is at least this share of the best one's. Raise it to spare callers.",
        low=0.0,
        high=1.0,
    ),
    Option(
        "epsilon",
        0.05,
        "epsilon, lin_ts: share of answers drawn uniformly from the plausible candidates. optimistic: of those that explore.",
        low=0.0,
        high=1.0,
    ),
    Option("gamma", 500.0, "squarecb: the larger, the more often the best candidate is chosen.", above=0.0),
    Option(
        "draws", 64, "lin_ts: posterior draws that estimate a propensity. Raise it for smoother propensities.", above=0
    ),
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy and its parameters. Raises ValueError for an unknown name or a value out of range."""

    name: str
    epsilon: float
    gamma: float
    draws: int
    optimism: float = 0.0
    explore_share: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise ValueError(f"unknown policy {self.name!r}; use one of {', '.join(POLICIES)}")
        if not (0 <= self.epsilon <= 1 and self.gamma > 0 and self.draws > 0):
            raise ValueError(
                f"epsilon must lie in [0, 1], gamma and draws above 0, not {self.epsilon}, {self.gamma}, {self.draws}"
            )

    @classmethod
    def of(cls, options: Options) -> "Policy":
        """Return the policy that options name."""
        names = ("policy", "epsilon", "gamma", "draws", "optimism", "explore_share")
        return cls(*(options[name] for name in names))

    @property
    def is_greedy(self) -> bool:
        """Whether the best candidate is always chosen."""
        return self.name == "greedy"

    @property
    def is_optimistic(self) -> bool:
        """Whether uncertain candidates get a bonus."""
        return self.name == "optimistic"

    def draw_optimistic(self, tried: int, count: int, key: int) -> tuple[int, float]:
        """Return the index of the choice among `count` candidates, and its propensity. tried: the optimistic choice.

        Where this is not the best candidate, which comes first, every candidate can be drawn, so that the log says
        something about each (off-policy evaluation).
        """
        if tried == 0 or self.explore_share == 0:
            return 0, 1.0
        chances = self.explore_share * mix_with_uniform(np.eye(1, count, tried)[0], self.epsilon)
        chances[0] += 1 - self.explore_share
        return draw_choice(chances, np.random.Generator(np.random.Philox(key=key)))

    def choose(self, rewards_K: Floats, scores_K: Floats, doubts_K: Floats, key: int) -> tuple[int, float]:
        """Return the index of the choice and its propensity.

        rewards_K: expected rewards in [0, 1]. scores_K, doubts_K: scores and their standard
        deviations. key: the random key, in [0, 2^128).
        """
        rng = np.random.Generator(np.random.Philox(key=key))
        match self.name:
            case "greedy" | "optimistic":
                return 0, 1.0
            case "epsilon":
                return draw_choice(mix_with_uniform(np.eye(1, len(scores_K))[0], self.epsilon), rng)
            case "squarecb":
                return draw_choice(weigh_by_inverse_gap(rewards_K, self.gamma), rng)
            case _:
                return draw_choice(
                    mix_with_uniform(estimate_win_rates(scores_K, doubts_K, self.draws, rng), self.epsilon), rng
                )


def draw_choice(chances: Floats, rng: np.random.Generator) -> tuple[int, float]:
    """Return an index drawn with these probabilities, and its probability."""
    upto = np.cumsum(chances)
    place = int(np.searchsorted(upto, rng.random() * upto[-1], side="right"))
    return place, float(chances[place])


def mix_with_uniform(chances: Floats, epsilon: float) -> Floats:
    """Return probabilities of at least epsilon / K each."""
    mixed: Floats = (1 - epsilon) * chances + epsilon / len(chances)
    return mixed


def weigh_by_inverse_gap(rewards: Floats, gamma: float) -> Floats:
    """Inverse gap weighting: the best, which comes first, gets the remaining probability."""
    chances: Floats = 1 / (len(rewards) + gamma * (rewards[0] - rewards))
    chances[0] = 1 - chances[1:].sum()
    return chances


def estimate_win_rates(scores: Floats, doubts: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Return the share of draws in which each candidate is the best.

    Given these draws it is the exact probability of the choice that follows.
    """
    sampled = scores + doubts * rng.standard_normal((draws, len(scores)))
    share: Floats = np.bincount(sampled.argmax(1), minlength=len(scores)) / draws
    return share


def draw_key(prediction_id: str) -> int:
    """Return the random key of a prediction, from its id in the log, so that a replay repeats the draw."""
    return int.from_bytes(hashlib.sha256(prediction_id.encode()).digest()[:8], "little")
