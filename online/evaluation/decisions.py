"""Logged decisions: among which candidates somebody chose, with which chance, and what came of it.

    our log          Asked (candidates, choice, propensity) + the last feedback that still stands -> reward
    bandit_formats   what others log: Vowpal Wabbit's text and dsjson, CSV

Decisions have few candidates or many, so all candidates stand in one row after another. Shapes: N decisions, M
candidates of all of them, K actions.

    decision n  ->  candidates starts[n] .. starts[n + 1]
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.errors import BadInput
from online.evaluation.formats import Bad, probability
from online.evaluation.log import Asked
from online.evaluation.sources import Source
from online.schemas import Event

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

CERTAIN = 1 - 1e-9  # a propensity from here on: nothing else could have been chosen


@dataclass(frozen=True, slots=True)
class Decision:
    """One of them, as a policy sees it before it chooses. features: as logged; slot: where it is shown."""

    id: str
    candidates: Sequence[str]
    scores: Sequence[float]
    features: bytes
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Decisions:
    """scores: as logged, NaN where there are none. logged: the chances of every candidate, where they were logged.

    input: of the features (text, vector, table; "": nothing is known but the candidates). told: the offset of the
    feedback, 0 where there are none. left_out: what -> how many.
    """

    ids: list[str]
    actions: list[str]
    starts_N1: Places
    action_M: Places
    scores_M: Floats
    logged_M: Floats | None
    chosen_N: Places  # places among M
    propensities_N: Floats
    rewards_N: Floats
    features: list[bytes]
    slots: list[str]
    told_N: Places
    input: str
    left_out: dict[str, int]
    notes: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def whose(self) -> Places:
        """[M]: of which decision each is a candidate."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts_N1))

    def summed(self, values_M: Floats) -> Floats:
        """[N]: over each decision's candidates, of which there is at least one."""
        sums: Floats = np.add.reduceat(values_M, self.starts_N1[:-1])
        return sums

    @property
    def possible(self) -> NDArray[np.bool_]:
        """[M]: what the logging policy could have chosen: all that is listed, unless its chances or its certainty deny it."""
        if self.logged_M is not None:
            return self.logged_M > 0
        possible_M = np.repeat(self.propensities_N < CERTAIN, np.diff(self.starts_N1))
        possible_M[self.chosen_N] = True
        return possible_M

    def one(self, place: int) -> Decision:
        start, stop = self.starts_N1[place : place + 2]
        names = [self.actions[action] for action in self.action_M[start:stop]]
        scores = self.scores_M[start:stop].tolist()
        return Decision(self.ids[place], names, scores, self.features[place], self.slots[place])


@dataclass(slots=True)
class Gathering:
    """Decisions as they come, one `add` after another."""

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
    told: list[int] = field(default_factory=list)

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
        told: int = 0,
    ) -> None:
        """Raises ValueError for what cannot have happened."""
        check(propensity, reward)
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
        self.told.append(told)

    def made(self, name: str, bad: Bad) -> Decisions:
        """Raises BadInput where there are none, or where more lines were bad than is bearable."""
        bad.check(len(self.ids) + bad.count)
        if bad.count:
            self.left_out["bad lines"] = bad.count
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
            np.array(self.told, np.int64),
            self.input,
            dict(self.left_out),
            self.notes,
        )


def check(propensity: float, reward: float) -> None:
    probability(propensity)
    if not 0 <= reward <= 1:
        raise ValueError(f"its reward is {reward:g}, which does not lie in [0, 1]")


# our log

NO_FEEDBACK = "predictions without feedback that stands"
NO_CHOICE = "predictions without a choice"


def of_log(source: Source, bad: Bad, at: Callable[[float], None] = lambda share: None) -> Decisions:
    """Of our own log. Raises BadInput for a model that predicts numbers, or where nothing was rated."""
    if source.header.get("kind") == "regressor":
        raise BadInput(f"{source.name} is the log of a regressor, which chooses nothing: its answers are numbers")
    gathering = Gathering(input=str(source.header["options"].get("input", INPUTS.get(source.header["kind"], "text"))))
    asked = dict[str, Asked]()
    standing = dict[str, dict[int, Event]]()  # prediction -> offset -> what was said of it and not taken back
    about = dict[int, str]()
    for line in source.lines(bad, at):
        if isinstance(line, Asked):
            keep(line, asked, gathering.left_out)
        elif line.entry.event.kind == "retraction" and line.entry.event.target is not None:
            taken_back = line.entry.event.target.offset
            standing.get(about.get(taken_back, ""), {}).pop(taken_back, None)
        elif line.asked in asked and line.entry.event.kind in ("reward", "label", "correction"):
            standing.setdefault(line.asked, {})[line.entry.offset] = line.entry.event
            about[line.entry.offset] = line.asked
    for line in asked.values():
        said = standing.get(line.id)
        if not said:
            gathering.left_out[NO_FEEDBACK] += 1
            continue
        try:
            add(gathering, line, max(said), said[max(said)])
        except ValueError as error:
            bad.add(f"{source.name}, prediction {line.id}: {error}")
    return gathering.made(source.name, bad)


INPUTS = {"ranker": "text", "river": "table"}


def keep(line: Asked, asked: dict[str, Asked], left_out: Counter[str]) -> None:
    if line.choice is None:
        left_out[NO_CHOICE] += 1
    elif not line.told:
        left_out[NO_FEEDBACK] += 1
    else:
        asked[line.id] = line


def add(gathering: Gathering, line: Asked, told: int, said: Event) -> None:
    assert line.choice is not None, "what chose nothing was not kept"
    reward = said.reward if said.kind == "reward" else float(said.label == line.choice)
    features = line.features or b""
    gathering.add(line.id, line.candidates, line.choice, line.propensity, reward, features, told=told)


# what others log


def with_actions_seen(rows: Iterable[Any], slot_of: Callable[[Any], str]) -> dict[str, list[str]]:
    """slot -> every action seen there, in the order of their names: what could have been chosen, where nobody says."""
    seen: dict[str, set[str]] = {}
    for row in rows:
        seen.setdefault(slot_of(row), set()).add(row.action)
    return {slot: sorted(actions, key=by_number) for slot, actions in seen.items()}


def by_number(name: str) -> tuple[float, str]:
    """2 before 10."""
    try:
        return float(name), name
    except ValueError:
        return math.inf, name
