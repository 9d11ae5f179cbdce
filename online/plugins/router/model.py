"""A router: inputs -> a route, learned from ratings, labels and the cost of answers.

    ratings, outcomes, declarations --> sums (sums.py, declared.py) --solved--> RouteChooser (choosing.py) --> a route, its propensity

Everything that is learned is integers, so any order leaves the same state. The price of the budget is a function of the same sums
(pace.py). Routes, prices, the budget and the shares of exploration are settings: they decide what is answered, never what is learned.

Shapes: K routes, D features.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from online.models.contract import (
    Answer,
    AnyArray,
    BadExample,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    pack_json,
    unpack_json,
)
from online.models.encoders.hashed import HASHED_EPOCH
from online.models.encoders.text import text_epoch
from online.models.kinds import HASHED
from online.models.options import resolve
from online.plugins.router.choosing import GroupSums, Preferences, RouteChooser, RouteEstimate
from online.plugins.router.declared import Declarations, DeclaredRoute, check_declaration
from online.plugins.router.inputs import RoutedInput, router_epoch
from online.plugins.router.options import OPTIONS, SIGNALS
from online.plugins.router.pace import PacedSpending, compute_pace
from online.plugins.router.solving import EXPECTED_REWARD, NOISE, RouteWeights, solve
from online.plugins.router.sums import (
    CONSTANT,
    NANO_DOLLAR,
    STEPS,
    WEIGHT_STEPS,
    WIDTH,
    FinishedAnswer,
    RatedAnswer,
    RouteSums,
    stack,
)

PROBES = 8
LONGEST_S = 1e6  # of an outcome
MOST_DOLLARS = 1e6
GRAMS = ("gram_DD", "cost_gram_DD")
VECTORS = ("moment_D", "right_D", "cost_moment_DT", "cost_squares_T")
NUMBERS = ("weight", "squares", "right", "outcomes", "nano_dollars", "units")


class RouterSummary(NamedTuple):
    """The figures of a router. routes: by name. budget, cost_per_1k: US dollars. price: of the pace."""

    routes: Mapping[str, Mapping[str, float]]
    budget: float
    cost_per_1k: float
    price: float


class RouterModel:
    """A model that answers with one of several routes. Implements `contract.Model`."""

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        self.signals = {**SIGNALS, **check_signals(self.options["signal_weights"])}
        for table in self.options["routes"]:
            if not isinstance(table, Mapping) or not table.get("name"):
                raise ValueError(f"option 'routes' has a table without a name: {str(table)[:80]}")
            DeclaredRoute.of(str(table["name"]), dict(table))
        self.sums: dict[str, RouteSums] = {}
        self.label_gram_DD = np.zeros((WIDTH, WIDTH), np.int64)
        self.labels = 0
        self.spending = PacedSpending()
        self.groups: GroupSums = {}
        self.declarations = Declarations()
        self.recent: list[bytes] = []
        self._solved: tuple[list[str], RouteWeights, Sequence[float]] | None = None  # of all routes with sums
        self._chooser: RouteChooser | None = None

    @property
    def subtracts(self) -> bool:
        """Whether examples can be subtracted: always."""
        return True

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return router_epoch(HASHED_EPOCH if self.options["text_features"] == HASHED else text_epoch(""))

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Choose a route for each input; with a key, drawn by the policy."""
        return self.present().predict([RoutedInput.parse(each) for each in inputs], keys)

    def explain(self, features: bytes) -> list[RouteEstimate]:
        """Return what is expected of every route that may answer an input, the best first."""
        return self.present().explain(RoutedInput.parse(features))

    def summarise(self) -> RouterSummary:
        """Return the figures of the routes and of the budget."""
        names, weights, _ = self._solve()
        chooser = self.present()
        routes: dict[str, Mapping[str, float]] = {
            name: {
                "ratings": float(weights.rated_K[k]),
                "outcomes": int(weights.finished_K[k]),
                "dollars": float(weights.dollars_K[k]),
                "fell": max(-float(weights.shift_K[k]), 0.0),
            }
            for k, name in enumerate(names)
        }
        pace = chooser.pace
        return RouterSummary(routes, 1_000 * chooser.budget, 1_000 * pace.dollars / max(pace.requests, 1), pace.price)

    def present(self) -> RouteChooser:
        """Return the chooser of what is learned so far."""
        if self._chooser is None:
            names, weights, means = self._solve()
            settings = self.declarations.settings(self.options)
            routes = self.declarations.routes(self.options, names)
            aligned, means_K = align(routes, names, weights, means)
            blocks = self.spending.list_newest(self.declarations.paced_since())
            pace = compute_pace(blocks, settings["max_cost_per_1k"] / 1_000)
            preferences = Preferences([each.name for each in routes], means_K, self.groups, settings["group_ratings"])
            self._chooser = RouteChooser(routes, aligned, preferences, settings, pace)
        return self._chooser

    def _solve(self) -> tuple[list[str], RouteWeights, Sequence[float]]:
        if self._solved is None:
            names = sorted(self.sums)
            sums = [self.sums[name] for name in names]
            means = [each.moment_D[0] / max(each.weight, 1) / CONSTANT / STEPS for each in sums]
            self._solved = names, solve(sums, self.label_gram_DD, self.labels), means
        return self._solved

    # learn

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        for example in examples:
            check_example(example)

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn ratings, labels, outcomes and declarations."""
        self.check(examples)
        seen = [example.features for example in examples if example.features]
        self.recent = [*self.recent, *seen[-PROBES:]][-PROBES:]
        self._count(examples, times=1)

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from the state."""
        gone = {example.features for example in examples}
        self.recent = [features for features in self.recent if features not in gone]
        self._count(examples, times=-1)

    def _count(self, examples: Sequence[Example], times: int) -> None:
        self._chooser = None
        ratings, outcomes = defaultdict[str, list[RatedAnswer]](list), defaultdict[str, list[FinishedAnswer]](list)
        for example in examples:
            if example.kind in ("declare", "retire", "restore"):
                (self.declarations.add if times > 0 else self.declarations.remove)(example)
                continue
            self._solved = None
            input = RoutedInput.parse(example.features)
            match example.kind:
                case "label":
                    self._count_label(example.label, input, times)
                case "reward":
                    ratings[example.label].append(self._rate(example, input, times))
                case _:
                    outcome = read_outcome(example, input)
                    outcomes[example.label].append(outcome)
                    self.spending.add(example.offset, round(outcome.cost / NANO_DOLLAR), times)
        for name, rated in ratings.items():
            self._of(name).add_ratings(rated)
        for name, finished in outcomes.items():
            self._of(name).add_outcomes(finished, times)
        for name in [name for name, each in self.sums.items() if each.is_empty]:
            del self.sums[name]

    def _of(self, name: str) -> RouteSums:
        return self.sums.setdefault(name, RouteSums())

    def _rate(self, example: Example, input: RoutedInput, times: int) -> RatedAnswer:
        weight = times * round(WEIGHT_STEPS * self.signals.get(example.signal, SIGNALS[""]))
        if input.group:
            by_route = self.groups.setdefault(input.group, {})
            before = by_route.get(example.label, (0, 0))
            after = before[0] + weight, before[1] + weight * round(STEPS * example.reward)
            by_route[example.label] = after
            if after == (0, 0):
                del by_route[example.label]
            if not by_route:
                del self.groups[input.group]
        return RatedAnswer(example.label, example.offset, input, example.reward, weight)

    def _count_label(self, name: str, input: RoutedInput, times: int) -> None:
        weight = times * WEIGHT_STEPS
        z_D = stack([input])[0]
        self.label_gram_DD += weight * np.outer(z_D, z_D)
        self.labels += weight
        sums = self._of(name)
        for each in self.sums.values():
            each.reward_inverse_DD = None
        sums.right_D += weight * z_D
        sums.right += weight

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: the newest ratings of each route are compared with its predictions all the time."""

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        seen = hashlib.sha256(json.dumps([self.feature_epoch(), self.declarations.to_json()]).encode())
        for name in sorted(self.sums):
            sums = self.sums[name]
            seen.update(json.dumps([name, *(int(getattr(sums, each)) for each in NUMBERS)]).encode())
            for each in (*GRAMS, *VECTORS):
                seen.update(np.ascontiguousarray(getattr(sums, each)).data)
        seen.update(np.ascontiguousarray(self.label_gram_DD).data)
        seen.update(json.dumps([self.labels, *list_groups(self.groups)]).encode())
        seen.update(self.spending.pack().data)
        return seen.hexdigest()

    def facts(self) -> Mapping[str, float]:
        """Return the price of the budget, and what requests cost on average in the blocks that it was computed from."""
        pace = self.present().pace
        return {"price": pace.price, "cost_per_1k": 1_000 * pace.dollars / max(pace.requests, 1)}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, any choice being right."""
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        names, weights, means = self._solve()
        groups = list_groups(self.groups)
        meta = {"routes": names, "means": list(means), "declared": self.declarations.to_json()}
        meta["groups"] = [[str(group), name] for group, name, _, _ in groups]
        served: dict[str, AnyArray] = {
            "meta": pack_json(meta),
            "spending": self.spending.pack(),
            "groups": np.array([each[2:] for each in groups], np.int64).reshape(-1, 2),
        }
        served |= {name: getattr(weights, name) for name in RouteWeights.__slots__}
        parts = {"weights": StatePart(served, serving=True)}
        return parts if serving_only else {**parts, "statistics": StatePart(self._pack_sums(names), serving=False)}

    def _pack_sums(self, names: Sequence[str]) -> Tensors:
        sums = [self.sums[name] for name in names]
        tensors: dict[str, AnyArray] = {
            "label_gram_DD": self.label_gram_DD.copy(),
            "memory": pack_json({"labels": self.labels, "recent": [each.hex() for each in self.recent]}),
            "numbers": np.array([[getattr(each, name) for name in NUMBERS] for each in sums], np.int64),
        }
        for k, each in enumerate(sums):
            tensors |= {f"{k}.{name}": getattr(each, name).copy() for name in (*GRAMS, *VECTORS)}
            tensors |= {f"{k}.recent.{name}": tensor for name, tensor in each.recent.pack().items()}
            tensors |= {f"{k}.recent_costs.{name}": tensor for name, tensor in each.recent_costs.pack().items()}
        return tensors

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        served, self._chooser = state["weights"].tensors, None
        meta = unpack_json(served["meta"])
        weights = RouteWeights(*(np.array(served[name]) for name in RouteWeights.__slots__))
        self._solved = meta["routes"], weights, meta["means"]
        self.declarations = Declarations.from_json(meta["declared"])
        self.spending.unpack(served["spending"])
        self.groups = {}
        for (group, name), row in zip(meta["groups"], served["groups"].tolist(), strict=True):
            self.groups.setdefault(int(group), {})[name] = (row[0], row[1])
        if "statistics" in state:
            self._unpack_sums(meta["routes"], state["statistics"].tensors)

    def _unpack_sums(self, names: Sequence[str], tensors: Tensors) -> None:
        memory = unpack_json(tensors["memory"])
        self.label_gram_DD, self.labels = tensors["label_gram_DD"].copy(), memory["labels"]
        self.recent = [bytes.fromhex(each) for each in memory["recent"]]
        self.sums = {name: RouteSums() for name in names}
        for k, name in enumerate(names):
            sums = self.sums[name]
            for each, value in zip(NUMBERS, tensors["numbers"][k].tolist(), strict=True):
                setattr(sums, each, value)
            for each in (*GRAMS, *VECTORS):
                setattr(sums, each, tensors[f"{k}.{each}"].copy())
            for each, blocks in (("recent", sums.recent), ("recent_costs", sums.recent_costs)):
                prefix = f"{k}.{each}."
                blocks.unpack(
                    {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
                )


def align(
    routes: Sequence[DeclaredRoute], names: Sequence[str], weights: RouteWeights, means: Sequence[float]
) -> tuple[RouteWeights, AnyArray]:
    """Return the weights and the mean rewards of these routes; those of a route without ratings are the base."""
    known = {name: place for place, name in enumerate(names)}

    def pick(values: AnyArray, blank: AnyArray | float = 0.0) -> AnyArray:
        rows = [values[known[each.name]] if each.name in known else blank for each in routes]
        return np.array([np.broadcast_to(row, values.shape[1:]) for row in rows], np.float64).reshape(
            len(routes), *values.shape[1:]
        )

    reward_KD, rated_K = pick(weights.reward_KD, weights.base_D), pick(weights.rated_K)
    for k, route in enumerate(routes):
        if route.prior is not None and rated_K[k] == 0:
            reward_KD[k] = 0.0
            reward_KD[k, 0] = route.prior / CONSTANT
    aligned = RouteWeights(
        reward_KD,
        pick(weights.cost_KTD, weights.base_TD),
        pick(weights.noise_K, NOISE),
        pick(weights.spread_KT),
        rated_K,
        pick(weights.finished_K),
        pick(weights.shift_K),
        pick(weights.has_units_K),
        pick(weights.dollars_K),
        weights.base_D,
        weights.base_TD,
    )
    return aligned, pick(np.array(means, np.float64), float(np.mean(means)) if len(means) else EXPECTED_REWARD)


def list_groups(groups: GroupSums) -> list[tuple[int, str, int, int]]:
    """Return the sums of groups as rows: group, route, weight, weighted reward."""
    return [(group, name, *groups[group][name]) for group in sorted(groups) for name in sorted(groups[group])]


def check_signals(weights: object) -> dict[str, float]:
    """Return the weights of signals. Raises ValueError."""
    assert isinstance(weights, Mapping), "options are checked by their type"
    for name, weight in weights.items():
        if name not in SIGNALS or not isinstance(weight, (int, float)) or not 0 <= weight <= 1:
            known = ", ".join(filter(None, SIGNALS))
            raise ValueError(f"option 'signal_weights' has {name!r} = {weight!r}; use weights in [0, 1] of {known}")
    return dict(weights)


def check_example(example: Example) -> None:
    """Raise BadExample for an example that a router cannot learn."""
    if example.kind in ("declare", "retire", "restore"):
        if example.kind == "declare":
            check_declaration(example)
        return
    if example.kind not in ("label", "reward", "outcome"):
        raise BadExample(f"a router learns rewards, labels and outcomes, not a {example.kind}")
    if not example.label:
        raise BadExample("there is no route to learn about: the prediction it refers to had none")
    try:
        input = RoutedInput.parse(example.features)
    except ValueError as error:
        raise BadExample(str(error)) from None
    if example.kind == "outcome":
        read_outcome(example, input)


def read_outcome(example: Example, input: RoutedInput) -> FinishedAnswer:
    """Return what an answer took. Raises BadExample for anything but a cost and seconds of usable size."""
    try:
        table = json.loads(example.text)
        cost, seconds = float(table["cost"]), float(table.get("seconds") or 0.0)
        unit = float(table.get("unit") or 0.0)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise BadExample("an outcome has a cost in US dollars, and seconds") from None
    if not (0 <= cost <= MOST_DOLLARS and 0 <= seconds <= LONGEST_S and 0 <= unit <= MOST_DOLLARS):
        raise BadExample(f"an outcome of {cost} US dollars and {seconds} seconds is out of range")
    return FinishedAnswer(example.label, example.offset, input, cost, seconds, unit)
