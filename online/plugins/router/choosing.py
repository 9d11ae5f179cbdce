"""Chooses a route for each input: by what its answer is expected to be worth, less what it costs.

    utility = reward + preferences of the group - price * cost / budget - cost_weight * cost - latency_weight * seconds (+ stay)

    the best utility gets the rest of the probability    every other route gets at least a share, so that the log says something about it

The share of another route is `explore` / K, more while it is new or its newest ratings fell, and never more than `explore_cost` of the
budget pays for. A route whose cost could not be made up for by the best possible answer is not tried at all. The best route gets so much
that a request costs MOST_AT_ONCE budgets on average; the next best ones get the rest: so a version whose price is out of date cannot
spend what takes thousands of requests to save. Every probability is known before the draw, and
the draw is one random number of the prediction's key: the logged propensity is the true one.

Shapes: K routes, T = 2 logarithms (nano-dollars, milliseconds).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Answer, build_candidates
from online.plugins.router.declared import DeclaredRoute
from online.plugins.router.inputs import CHARS_PER_TOKEN, PLAIN, PLAIN_SCALE, RoutedInput, hash_route
from online.plugins.router.options import BUDGET
from online.plugins.router.pace import Pace
from online.plugins.router.solving import Floats, RouteWeights
from online.plugins.router.sums import MILLISECOND, NANO_DOLLAR, STEPS, WEIGHT_STEPS, stack
from online.schemas.json_values import JSONObject

CONTEXT = PLAIN.index("context")
CONTEXT_SCALE = 10  # of the plain number `context`: log2(1 + characters) / 10
LARGEST_LOG = 62.0
MOST_AT_ONCE = 3.0  # budgets
SUSPECT = 0.1  # fall of the newest rewards from which a route is tried as a new one is
SMEARING = math.log(2) / 2  # the mean of 2^x, x normal, is 2^(mean + SMEARING * variance)
GroupSums = dict[int, dict[str, tuple[int, int]]]  # group -> route -> sum w, sum w q


@dataclass(frozen=True, slots=True)
class RouteEstimate:
    """The expectations of one route's answer, and how likely it is chosen. cost: US dollars. preference: of the group."""

    route: str
    reward: float
    preference: float
    cost: float
    seconds: float
    utility: float
    probability: float
    ratings: float
    noise: float


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of teams and users. names: of the K routes. means_K: mean reward of each. groups: the sums of all groups."""

    names: Sequence[str]
    means_K: Floats
    groups: GroupSums
    half_at: float

    def shift(self, group: int) -> Floats | None:
        """Return by how much each route's reward differs for a group; None for a group that has rated nothing.

        Of a group that rates everything lower, only what differs between routes counts.
        """
        by_route = self.groups.get(group)
        if by_route is None:
            return None
        sums_2K = np.array([by_route.get(name, (0, 0)) for name in self.names], np.float64).T
        weight_K, rewards_K = sums_2K[0] / WEIGHT_STEPS, sums_2K[1] / WEIGHT_STEPS / STEPS
        gap_K = rewards_K / np.maximum(weight_K, 1e-9) - self.means_K
        total = weight_K.sum()
        common = weight_K @ gap_K / max(total, 1e-9) * total / (total + self.half_at)
        shift_K: Floats = weight_K / (weight_K + self.half_at) * (gap_K - common)
        return shift_K


@dataclass(frozen=True, slots=True)
class ExpectedAnswers:
    """The expectations of the answers of K routes to B inputs. cost_BK: US dollars."""

    reward_BK: Floats
    cost_BK: Floats
    seconds_BK: Floats


@dataclass(frozen=True, slots=True)
class WeighedRoutes:
    """The routes that may answer one input. places [K]: in the list of all. The best has the largest utility."""

    places: NDArray[np.intp]
    reward_K: Floats
    preference_K: Floats
    cost_K: Floats
    seconds_K: Floats
    utility_K: Floats
    chance_K: Floats

    @property
    def order(self) -> NDArray[np.intp]:
        """The routes by utility, the best first; of equals the cheaper one."""
        return np.lexsort((self.places, self.cost_K, -self.utility_K))


@dataclass(frozen=True, slots=True)
class RouteChooser:
    """The chooser of a version. routes: that may be chosen, in the order of the K of everything else."""

    routes: Sequence[DeclaredRoute]
    weights: RouteWeights
    preferences: Preferences
    settings: JSONObject
    pace: Pace

    def predict(self, inputs: Sequence[RoutedInput], keys: Sequence[int | None]) -> list[Answer]:
        """Return an answer for each input. Its candidates' scores are the probabilities of the policy."""
        if not self.routes or not inputs:
            return [Answer(None, (), abstained=True) for _ in inputs]
        weighed = self._weigh_all(inputs)
        return [self._answer(*each) for each in zip(weighed, keys or [None] * len(inputs), strict=True)]

    def explain(self, input: RoutedInput) -> list[RouteEstimate]:
        """Return what is expected of every route that may answer, the best first."""
        if not self.routes:
            return []
        (weighed,) = self._weigh_all([input])
        return [
            RouteEstimate(
                route=self.routes[weighed.places[k]].name,
                reward=float(weighed.reward_K[k]),
                preference=float(weighed.preference_K[k]),
                cost=float(weighed.cost_K[k]),
                seconds=float(weighed.seconds_K[k]),
                utility=float(weighed.utility_K[k]),
                probability=float(weighed.chance_K[k]),
                ratings=float(self.weights.rated_K[weighed.places[k]]),
                noise=float(self.weights.noise_K[weighed.places[k]]),
            )
            for k in weighed.order
        ]

    def with_budget(self, budget: float, price: float) -> Self:
        """Return the chooser under another budget. budget: US dollars per request; 0 for none. price: on a cost of one budget."""
        return replace(self, settings={**self.settings, BUDGET: 1_000 * budget}, pace=Pace(price, 0, 0.0))

    def _answer(self, weighed: WeighedRoutes, key: int | None) -> Answer:
        if not len(weighed.places):
            return Answer(None, (), abstained=True)
        order = weighed.order
        listed = order[np.argsort(-weighed.chance_K[order], kind="stable")]
        names = [self.routes[weighed.places[k]].name for k in listed]
        chances = weighed.chance_K[listed]
        candidates = build_candidates(names, chances.tolist())
        if key is None or chances[0] == 1:
            return Answer(names[0], candidates, float(chances[0]))
        drawn = np.random.Generator(np.random.Philox(key=key)).random() * chances.sum()
        place = min(int(np.searchsorted(np.cumsum(chances), drawn, side="right")), len(names) - 1)
        return Answer(names[place], candidates, float(chances[place]), float(chances[place]))

    def expect(self, inputs: Sequence[RoutedInput]) -> ExpectedAnswers:
        """Return what the answers of all routes to inputs are worth, cost and take."""
        z_BD = stack(inputs)
        rewards_BK = np.clip(self.weights.predict_rewards(z_BD), 0.0, 1.0)
        logs_BKT = self.weights.predict_logs(z_BD) + SMEARING * self.weights.spread_KT**2
        means_BKT = np.exp2(np.minimum(logs_BKT, LARGEST_LOG))
        unknown_K = self.weights.finished_K == 0
        units_K = np.where(self.weights.has_units_K > 0, [each.price_level for each in self.routes], 1.0)
        guessed = [[each.guess_cost(read_context(input)) for each in self.routes] for input in inputs]
        guessed_BK = np.array(guessed, np.float64).reshape(len(inputs), len(self.routes))
        costs_BK = np.where(unknown_K, guessed_BK, means_BKT[..., 0] * NANO_DOLLAR * units_K)
        return ExpectedAnswers(rewards_BK, costs_BK, np.where(unknown_K, 0.0, means_BKT[..., 1] * MILLISECOND))

    def share(self, inputs: Sequence[RoutedInput]) -> Floats:
        """Return the probability of each route for each input [B, K]."""
        shares_BK = np.zeros((len(inputs), len(self.routes)))
        for share_K, weighed in zip(shares_BK, self._weigh_all(inputs), strict=True):
            share_K[weighed.places] = weighed.chance_K
        return shares_BK

    def _weigh_all(self, inputs: Sequence[RoutedInput]) -> list[WeighedRoutes]:
        expected = self.expect(inputs)
        each_of = zip(inputs, expected.reward_BK, expected.cost_BK, expected.seconds_BK, strict=True)
        return [self._weigh(*each) for each in each_of]

    def _weigh(self, input: RoutedInput, reward_K: Floats, cost_K: Floats, seconds_K: Floats) -> WeighedRoutes:
        excluded = input.excluded
        places = np.array([k for k, each in enumerate(self.routes) if hash_route(each.name) not in excluded], np.intp)
        context = read_context(input)
        preference_K = self.preferences.shift(input.group) if input.group else None
        if preference_K is None:
            preference_K = np.zeros(len(reward_K))
        net_K = cost_K.copy()
        stay_K = np.zeros(len(reward_K))
        for k, each in enumerate(self.routes):
            if input.held and hash_route(each.name) == input.held:
                net_K[k] = max(net_K[k] - each.saved_by_cache(context), 0.0)
                stay_K[k] = self.settings["stay"]
        utility_K = reward_K + preference_K + stay_K - self._penalise(net_K, seconds_K)
        chance_K = self._share(utility_K[places], cost_K[places], places, input.explore)
        return WeighedRoutes(
            places,
            reward_K[places],
            preference_K[places],
            cost_K[places],
            seconds_K[places],
            utility_K[places],
            chance_K,
        )

    @property
    def budget(self) -> float:
        """The budget of one request, in US dollars; 0 for none."""
        return float(self.settings[BUDGET]) / 1_000

    def _penalise(self, cost_K: Floats, seconds_K: Floats) -> Floats:
        paced_K = self.pace.price * cost_K / self.budget if self.budget else 0.0
        settings = self.settings
        penalty_K: Floats = settings["cost_weight"] * 1_000 * cost_K + settings["latency_weight"] * seconds_K + paced_K
        return penalty_K

    def _share(self, utility_K: Floats, cost_K: Floats, places: NDArray[np.intp], explore: float | None) -> Floats:
        """Return the probability of each route. explore: the share of this input; None as the settings say."""
        count = len(places)
        if count < 2:
            return np.ones(count)
        settings = self.settings
        usual = settings["explore"] if explore is None else explore
        newness_K = np.maximum(0.0, 1 - self.weights.rated_K[places] / settings["explore_ratings"])
        newness_K = np.maximum(newness_K, np.minimum(-self.weights.shift_K[places] / SUSPECT, 1.0))
        share_K: Floats = np.maximum(usual, (usual > 0) * settings["explore_new"] * newness_K) / count
        if self.budget:
            share_K = np.minimum(share_K, settings["explore_cost"] * self.budget / np.maximum(cost_K, 1e-12) / count)
            share_K = np.where(self.pace.price * cost_K / self.budget > 1, 0.0, share_K)
        order = np.lexsort((places, cost_K, -utility_K))
        share_K[order[0]] = 0.0
        left = 1 - share_K.sum()
        most_K = MOST_AT_ONCE * self.budget / np.maximum(cost_K, 1e-12) if self.budget else np.ones(count)
        for k in order:
            more = min(max(min(most_K[k], 1.0) - share_K[k], 0.0), left)
            share_K[k] += more
            left -= more
        share_K[int(cost_K.argmin())] += left
        return share_K


def read_context(input: RoutedInput) -> float:
    """Return the length of an input's messages, in tokens."""
    return float(2 ** (input.plain_P[CONTEXT] / PLAIN_SCALE * CONTEXT_SCALE) - 1) / CHARS_PER_TOKEN
