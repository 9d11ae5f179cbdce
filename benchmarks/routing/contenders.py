"""Policies that choose a route: ours, and the usual ones, all under the same pacing of a budget.

    question --choose--> route --observe(reward if it was rated, cost)--> what the policy knows next

Each control scores what it expects of a route, less the price of the pace times the cost; the price follows what it has spent.

Shapes: K routes, D numbers of a text.
"""

import json
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from benchmarks.routing.questions import Floats, Questions
from online.models.contract import Example
from online.models.ranker.policies import draw_key
from online.plugins.router.declared import DeclaredRoute
from online.plugins.router.model import RouterModel
from online.plugins.router.pace import PacedSpending, compute_pace
from online.plugins.router.sums import NANO_DOLLAR
from online.schemas.json_values import JSONObject

PUBLISHED_EVERY = 25  # requests between two versions: what is learned answers a moment later
CLUSTERS, NEIGHBOURS, COMPONENTS, OPTIMISM = 20, 5, 25, 0.05
RIDGE = 1.0


class Contender(Protocol):
    """A policy that learns while it answers."""

    def choose(self, questions: Questions, place: int) -> int:
        """Return the route of a question."""

    def observe(self, questions: Questions, place: int, route: int, reward: float | None, cost: float) -> None:
        """Learn what the answer was worth, None where nobody rated it, and what it cost."""


class OurRouter:
    """The router as it is served: examples are learned in order, versions published every few requests."""

    def __init__(self, routes: Sequence[JSONObject], budget: float, seed: int, **options: object) -> None:
        """budget: of one request, in US dollars; 0 for none."""
        self.options = {"routes": list(routes), "max_cost_per_1k": 1_000 * budget, **options}
        self.model, self.seed = RouterModel(self.options), seed
        self.names = [str(each["name"]) for each in routes]
        self.units = [level_of(each) for each in routes]
        self.waiting = list[Example]()
        self.answered = self.offset = 0

    def choose(self, questions: Questions, place: int) -> int:
        """Return the route that the served policy draws."""
        if self.answered % PUBLISHED_EVERY == 0 and self.waiting:
            self.model.learn(self.waiting)
            self.waiting = []
        self.answered += 1
        (answer,) = self.model.predict([questions.inputs[place]], [draw_key(f"{self.seed}-{self.answered}")])
        return self.names.index(str(answer.choice))

    def observe(self, questions: Questions, place: int, route: int, reward: float | None, cost: float) -> None:
        """Note the outcome and the rating, as the log has them."""
        name, features = self.names[route], questions.inputs[place]
        self.offset += 1
        took = json.dumps({"cost": cost, "seconds": 1.0, "unit": self.units[route]})
        self.waiting.append(Example(self.offset, "outcome", features, name, took))
        if reward is not None:
            self.offset += 1
            self.waiting.append(Example(self.offset, "reward", features, name, reward=reward))

    def declare(self, route: JSONObject) -> None:
        """Add a route while it answers, or declare other prices of one."""
        name = str(route["name"])
        if name not in self.names:
            self.names.append(name)
            self.units.append(0.0)
        self.units[self.names.index(name)] = level_of(route)
        self.offset += 1
        self.model.learn([*self.waiting, Example(self.offset, "declare", b"", name, json.dumps(route))])
        self.waiting = []  # what an operator declares is published before they go on


def level_of(route: JSONObject) -> float:
    """Return the level of a route's prices."""
    return DeclaredRoute.of(str(route["name"]), route).price_level


class PacedControl:
    """The pacing that all controls share. Subclasses say what they expect of each route, and learn."""

    def __init__(self, count: int, budget: float, seed: int, explore: float = 0.02) -> None:
        self.count, self.budget, self.explore = count, budget, explore
        self.rng = np.random.default_rng(seed)
        self.spending, self.answered, self.price = PacedSpending(), 0, 0.0
        self.costs_K, self.seen_K = np.zeros(count), np.zeros(count)

    def expect(self, questions: Questions, place: int) -> Floats:
        """Return what each route's answer is expected to be worth [K]."""
        raise NotImplementedError

    def expect_costs(self, questions: Questions, place: int) -> Floats:
        """Return what each route's answer is expected to cost, in US dollars [K]: its mean so far."""
        cost_K: Floats = self.costs_K / np.maximum(self.seen_K, 1)
        return cost_K

    def learn(self, questions: Questions, place: int, route: int, reward: float) -> None:
        """Learn one rating."""
        raise NotImplementedError

    def choose(self, questions: Questions, place: int) -> int:
        """Return the best route at the present price, and sometimes another one."""
        if self.answered % PUBLISHED_EVERY == 0:
            self.price = compute_pace(self.spending.list_newest(0), self.budget).price
        if self.answered < 10 * self.count:
            return self.answered % self.count
        cost_K = self.expect_costs(questions, place)
        penalty_K = self.price * cost_K / self.budget if self.budget else np.zeros(self.count)
        if self.rng.random() < self.explore:
            return int(self.rng.choice(np.flatnonzero(penalty_K <= 1))) if (penalty_K <= 1).any() else 0
        return int(np.argmax(self.expect(questions, place) - penalty_K))

    def observe(self, questions: Questions, place: int, route: int, reward: float | None, cost: float) -> None:
        """Note what was spent, and learn the rating."""
        self.spending.add(2 * self.answered, round(cost / NANO_DOLLAR))
        self.answered += 1
        self.costs_K[route] += cost
        self.seen_K[route] += 1
        if reward is not None:
            self.learn(questions, place, route, reward)


class ClusterBeta(PacedControl):
    """A Beta distribution per topic cluster and route, sampled (Thompson), as gateways with request types have it."""

    def __init__(self, count: int, budget: float, seed: int, clusters: KMeans) -> None:
        super().__init__(count, budget, seed, explore=0.0)
        self.clusters = clusters
        self.good_CK, self.bad_CK = np.ones((CLUSTERS, count)), np.ones((CLUSTERS, count))
        self.known: tuple[int, NDArray[np.int64]] = (0, np.zeros(0, np.int64))

    def cluster_of(self, questions: Questions, place: int) -> int:
        """Return the cluster of a question."""
        if self.known[0] != id(questions):
            self.known = id(questions), self.clusters.predict(questions.text_ND.astype(np.float64))
        return int(self.known[1][place])

    def expect(self, questions: Questions, place: int) -> Floats:
        """Return a draw from the cluster's distributions."""
        at = self.cluster_of(questions, place)
        drawn_K: Floats = self.rng.beta(self.good_CK[at], self.bad_CK[at])
        return drawn_K

    def learn(self, questions: Questions, place: int, route: int, reward: float) -> None:
        """Count the rating in its cluster."""
        at = self.cluster_of(questions, place)
        self.good_CK[at, route] += reward
        self.bad_CK[at, route] += 1 - reward


class Neighbours(PacedControl):
    """The mean of the five nearest rated answers of each route."""

    def __init__(self, count: int, budget: float, seed: int) -> None:
        super().__init__(count, budget, seed)
        self.rated: list[list[tuple[Floats, float]]] = [[] for _ in range(count)]
        self.stacked: list[tuple[Floats, Floats] | None] = [None] * count

    def expect(self, questions: Questions, place: int) -> Floats:
        """Return the means of the nearest."""
        x_D = questions.text_ND[place].astype(np.float64)
        means_K = np.full(self.count, 0.5)
        for k, rated in enumerate(self.rated):
            if self.stacked[k] is None or len(self.stacked[k][1]) + PUBLISHED_EVERY < len(rated):  # type: ignore[index]
                self.stacked[k] = np.array([x for x, _ in rated]), np.array([reward for _, reward in rated])
            found = self.stacked[k]
            if found is not None and len(found[1]) >= NEIGHBOURS:
                nearest = np.argpartition(-(found[0] @ x_D), NEIGHBOURS - 1)[:NEIGHBOURS]
                means_K[k] = found[1][nearest].mean()
        return means_K

    def learn(self, questions: Questions, place: int, route: int, reward: float) -> None:
        """Remember the question."""
        self.rated[route].append((questions.text_ND[place].astype(np.float64), reward))


class DisjointLinUCB(PacedControl):
    """A ridge regression per route on 25 principal components, with an upper confidence bound (Li et al. 2010)."""

    def __init__(self, count: int, budget: float, seed: int, components: PCA) -> None:
        super().__init__(count, budget, seed, explore=0.0)
        self.components = components
        self.inverse = [np.eye(COMPONENTS + 1) / RIDGE for _ in range(count)]
        self.moment = [np.zeros(COMPONENTS + 1) for _ in range(count)]
        self.known: tuple[int, Floats] = (0, np.zeros((0, 0)))

    def read(self, questions: Questions, place: int) -> Floats:
        """Return the components of a question, and 1."""
        if self.known[0] != id(questions):
            z_NC = self.components.transform(questions.text_ND.astype(np.float64)) / np.sqrt(
                self.components.explained_variance_
            )
            self.known = id(questions), np.hstack([z_NC / np.sqrt(COMPONENTS), np.ones((len(questions), 1))])
        z_C: Floats = self.known[1][place]
        return z_C

    def expect(self, questions: Questions, place: int) -> Floats:
        """Return the upper bounds."""
        z_C = self.read(questions, place)
        return np.array(
            [
                z_C @ inverse @ moment + OPTIMISM * np.sqrt(z_C @ inverse @ z_C)
                for inverse, moment in zip(self.inverse, self.moment, strict=True)
            ]
        )

    def learn(self, questions: Questions, place: int, route: int, reward: float) -> None:
        """Update the regression of one route (Sherman & Morrison 1950)."""
        z_C, inverse = self.read(questions, place), self.inverse[route]
        v_C = inverse @ z_C
        self.inverse[route] = inverse - np.outer(v_C, v_C) / (1 + z_C @ v_C)
        self.moment[route] = self.moment[route] + reward * z_C


class FullInformation(PacedControl):
    """Ridge regressions that have seen every route's answer to every question that was learned: no policy can know more."""

    def __init__(self, count: int, budget: float, seed: int, learned: Questions) -> None:
        super().__init__(count, budget, seed, explore=0.0)
        x_ND = learned.text_ND / 512
        self.means_K = learned.reward_NK.mean(0)
        centred = learned.reward_NK - self.means_K
        logs_NK = np.log(np.maximum(learned.cost_NK, NANO_DOLLAR))
        self.logs_K = logs_NK.mean(0)
        both = np.hstack([centred, logs_NK - self.logs_K])
        weights = np.linalg.solve(x_ND.T @ x_ND + 10 * np.eye(x_ND.shape[1]), x_ND.T @ both)
        self.weights_DK, self.log_weights_DK = weights[:, :count], weights[:, count:]
        self.smearing_K = (logs_NK - self.logs_K - x_ND @ self.log_weights_DK).var(0) / 2

    def expect(self, questions: Questions, place: int) -> Floats:
        """Return the predictions."""
        expected_K: Floats = self.means_K + questions.text_ND[place] / 512 @ self.weights_DK
        return expected_K

    def learn(self, questions: Questions, place: int, route: int, reward: float) -> None:
        """Learn nothing further."""

    def expect_costs(self, questions: Questions, place: int) -> Floats:
        """Return the predictions, in US dollars [K]."""
        logs_K: Floats = self.logs_K + questions.text_ND[place] / 512 @ self.log_weights_DK + self.smearing_K
        return np.exp(logs_K)


Create = Callable[[float, int], Contender]  # of a budget and a seed


def list_controls(learned: Questions) -> dict[str, Create]:
    """Return the controls by name. learned: the questions, without their answers except for full information."""
    count = learned.reward_NK.shape[1]
    texts_ND = learned.text_ND.astype(np.float64)
    clusters = KMeans(CLUSTERS, n_init=1, random_state=0).fit(texts_ND)
    components = PCA(COMPONENTS, random_state=0).fit(texts_ND)
    return {
        "Beta per topic cluster": lambda budget, seed: ClusterBeta(count, budget, seed, clusters),
        "kNN, k = 5, with cost": lambda budget, seed: Neighbours(count, budget, seed),
        "disjoint LinUCB": lambda budget, seed: DisjointLinUCB(count, budget, seed, components),
        "full information": lambda budget, seed: FullInformation(count, budget, seed, learned),
    }
