"""Logged decisions as arrays: candidates, choices, propensities and rewards.

The number of candidates differs between decisions, so the candidates of all decisions are stored one
after another:

    decision n  ->  candidates starts[n] .. starts[n + 1]

Shapes: N decisions, M candidates of all of them, K actions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines, parse_probability, roundings_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

CERTAIN = 1 - 1e-9  # at a propensity of this or more, nothing else could have been chosen


@dataclass(frozen=True, slots=True)
class LoggedChoice:
    """One decision as a policy sees it before it chooses. features: as logged. slot: where it is shown."""

    id: str
    candidates: Sequence[str]
    scores: Sequence[float]
    features: bytes
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Decisions:
    """All decisions of a log.

    scores: as logged, NaN if there are none. logged: the probability of each candidate, if it was
    logged. chosen: the index of the choice among M. feedback_offsets: the offset of the feedback, 0 if
    there is none. input: what the features are (text, vector, table; "" if only the candidates are
    known). left_out: the number of excluded lines, by the reason. costs: of each choice in US dollars, NaN where it is not
    known; None where none is.
    """

    ids: list[str]
    actions: list[str]
    starts_N1: Indices
    action_M: Indices
    scores_M: Floats
    logged_M: Floats | None
    chosen_N: Indices
    propensities_N: Floats
    rewards_N: Floats
    features: list[bytes]
    slots: list[str]
    feedback_offsets_N: Indices
    input: str
    left_out: dict[str, int]
    notes: list[str]
    costs_N: Floats | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def owners(self) -> Indices:
        """[M]: the decision of each candidate."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts_N1))

    @property
    def roundings(self) -> Floats:
        """[N]: by how much the logged propensities may have been rounded, by the digits that they are written with."""
        given = self.propensities_N.tolist()
        known = roundings_of(given)
        return np.array([known[each] for each in given])

    def summed(self, values_M: Floats) -> Floats:
        """[N]: sums over the candidates of each decision, which has at least one."""
        sums: Floats = np.add.reduceat(values_M, self.starts_N1[:-1])
        return sums

    @property
    def possible(self) -> NDArray[np.bool_]:
        """[M]: whether the logging policy could have chosen each candidate.

        By the logged probabilities; without them every candidate counts, unless the choice was certain.
        """
        if self.logged_M is not None:
            return self.logged_M > 0
        possible_M = np.repeat(self.propensities_N < CERTAIN, np.diff(self.starts_N1))
        possible_M[self.chosen_N] = True
        return possible_M

    def one(self, place: int) -> LoggedChoice:
        """Return one decision, with the names of its candidates."""
        start, stop = self.starts_N1[place : place + 2]
        names = [self.actions[action] for action in self.action_M[start:stop]]
        scores = self.scores_M[start:stop].tolist()
        return LoggedChoice(self.ids[place], names, scores, self.features[place], self.slots[place])


@dataclass(slots=True)
class DecisionsBuilder:
    """Collects decisions one by one; `build` returns them as arrays."""

    input: str = ""
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)  # of the actions
    action: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    logged: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    chosen: list[int] = field(default_factory=list)
    propensities: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    features: list[bytes] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)
    feedback_offsets: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def add(
        self,
        id: str,
        candidates: Sequence[tuple[str, float]],
        choice: str,
        propensity: float,
        reward: float,
        features: bytes = b"",
        slot: str = "",
        logged: Sequence[float] = (),
        feedback_offset: int = 0,
        cost: float = np.nan,
    ) -> None:
        """Add a decision. Raises ValueError for one that cannot have happened."""
        check_decision(propensity, reward)
        names = [name for name, _ in candidates]
        if choice not in names or len(set(names)) < len(names):
            raise ValueError(f"its choice {choice!r} is not one of its candidates, each of which is listed once")
        self.ids.append(id)
        self.chosen.append(len(self.action) + names.index(choice))
        self.action += [self.places.setdefault(name, len(self.places)) for name in names]
        self.scores += [score for _, score in candidates]
        self.logged += logged
        self.starts.append(len(self.action))
        self.propensities.append(propensity)
        self.rewards.append(reward)
        self.features.append(features)
        self.slots.append(slot)
        self.feedback_offsets.append(feedback_offset)
        self.costs.append(cost)

    def build(self, name: str, bad: BadLines) -> Decisions:
        """Build the model. Raises BadInput if there are no decisions, or too many bad lines."""
        bad.check(len(self.ids) + bad.count)
        if bad.count:
            self.left_out["bad lines"] = bad.count
            self.notes.append(f"bad lines: {bad.describe()}")
        if not self.ids:
            why = "; ".join(f"{count:,} {what}" for what, count in self.left_out.items())
            raise BadInput(f"{name} holds no decision with a reward{': ' + why if why else ''}")
        whole = len(self.logged) == len(self.action)
        return Decisions(
            self.ids,
            list(self.places),
            np.array(self.starts, np.int64),
            np.array(self.action, np.int64),
            np.array(self.scores, np.float64),
            np.array(self.logged, np.float64) if whole else None,
            np.array(self.chosen, np.int64),
            np.array(self.propensities, np.float64),
            np.array(self.rewards, np.float64),
            self.features,
            self.slots,
            np.array(self.feedback_offsets, np.int64),
            self.input,
            dict(self.left_out),
            self.notes,
            None if np.isnan(self.costs).all() else np.array(self.costs, np.float64),
        )


def check_decision(propensity: float, reward: float) -> None:
    """Raise ValueError for a propensity or a reward outside its range."""
    parse_probability(propensity)
    if not 0 <= reward <= 1:
        raise ValueError(f"its reward is {reward:g}, which does not lie in [0, 1]")
