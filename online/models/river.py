"""Any river classifier under our contract: one by one, in order, on tables.

River's own persistence is pickle, so its state is trusted only when it carries the HMAC of this installation's key:
a file somebody else wrote is refused before a byte of it is unpickled, and no caller can send one.
"""

import hashlib
import hmac
import importlib
import inspect
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from online.models import (
    Answer,
    BadExample,
    Candidate,
    Example,
    Options,
    Part,
    State,
    new_revision,
    packed,
    take,
    unpacked,
)
from online.models.encoder import parse_row

PROBES = 8
LARGEST = 1e100
OPTIONS: dict[str, Any] = {
    "estimator": "softmax",  # a name in NAMED, or a place inside river such as "naive_bayes.GaussianNB"
    "params": {},  # its keyword arguments
    "scale": True,  # put preprocessing.StandardScaler before it
    "key": "",  # hex; signs the state (the learner and the server fill it in from the state folder)
}


@dataclass(frozen=True, slots=True)
class Named:
    """A classifier by a short name. part: the parameter that is an object of river's own, and what is made for it."""

    place: str
    params: Mapping[str, Any] = field(default_factory=dict)
    part: "tuple[str, Named] | None" = None


NAMED = {
    "logistic": Named("linear_model.LogisticRegression"),
    "softmax": Named("linear_model.SoftmaxRegression"),
    "ftrl": Named("linear_model.LogisticRegression", part=("optimizer", Named("optim.FTRLProximal", {"alpha": 0.1}))),
    "hat": Named("tree.HoeffdingAdaptiveTreeClassifier", {"grace_period": 50, "delta": 0.01}),
    "arf": Named("forest.ARFClassifier"),
    "srp": Named("ensemble.SRPClassifier"),
    # exact search: river's own default, a graph, is not the same in every run
    "knn": Named("neighbors.KNNClassifier", part=("engine", Named("neighbors.LazySearch", {"window_size": 500}))),
}


class River:
    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        self.key = bytes.fromhex(self.options["key"]) or b"in memory only"
        self.estimator = build(self.options["estimator"], self.options["params"], self.options["scale"])
        self.recent: list[bytes] = []
        self.labels: set[str] = set()
        self.names: set[str] = set()  # of the features it has learned from
        self.revision = new_revision()

    def feature_epoch(self) -> str:
        return "table"

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return [self._answer(features(data)) for data in inputs]

    def _answer(self, row: dict[str, Any]) -> Answer:
        known = {name: value for name, value in row.items() if name in self.names}  # river adds the others to itself
        try:
            chances = self.estimator.predict_proba_one(known) if self.labels else {}
        except (ArithmeticError, ValueError):  # numbers its formulas do not hold for: no answer, for this row alone
            return Answer(None, (), abstained=True)
        # river sums over sets, in another order in every process: the last digits must not decide
        rounded = ((str(label), round(float(p), 12)) for label, p in chances.items())
        ranked = sorted(rounded, key=lambda pair: (-pair[1], pair[0]))
        if not ranked:
            return Answer(None, ())
        return Answer(ranked[0][0], tuple(Candidate(label, p) for label, p in ranked), ranked[0][1])

    def learn(self, examples: Sequence[Example]) -> None:
        rows = [self._checked(example) for example in examples]
        for example, row in zip(examples, rows, strict=True):
            self.estimator.learn_one(row, example.label)
            self.labels.add(example.label)
            self.names.update(row)
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]
        self.revision = new_revision()

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            self._checked(example)

    def _checked(self, example: Example) -> dict[str, Any]:
        if example.kind != "label" and not (example.kind == "reward" and example.reward >= 0.5):
            raise BadExample(
                "a river classifier learns labels and rewards of at least 0.5; it cannot learn what was wrong"
            )
        if not example.label:
            raise BadExample("there is no label to learn: the answer it refers to had none")
        try:
            row = features(example.features)
        except (ValueError, AttributeError):
            raise BadExample("features that are not a JSON object") from None
        huge = next((name for name, value in row.items() if abs(value) > LARGEST), None)
        if huge is not None:
            raise BadExample(f"{huge} is {row[huge]:g}: beyond {LARGEST:g} a running variance overflows, for good")
        return row

    def unlearn(self, examples: Sequence[Example]) -> None:
        raise NotImplementedError("a river model cannot subtract: subtracts is False")

    def fingerprint(self) -> str:
        seen = hashlib.sha256()
        walk(self.estimator, seen.update, set())
        return seen.hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """It has no windows to shorten."""

    def facts(self) -> Mapping[str, float]:
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(data, None) for data in self.recent]

    def state(self, serving_only: bool = False) -> State:
        data = pickle.dumps(self.estimator, protocol=5)
        meta = {
            "labels": sorted(self.labels),
            "names": sorted(self.names),
            "recent": [r.hex() for r in self.recent],
            "hmac": self._sign(data),
        }
        tensors = {"estimator": np.frombuffer(data, np.uint8), "meta": packed(meta)}
        return {"estimator": Part(tensors, serving=True, revision=self.revision)}

    def restore(self, state: State) -> None:
        tensors = state["estimator"].tensors
        data, meta = tensors["estimator"].tobytes(), unpacked(tensors["meta"])
        if not hmac.compare_digest(meta["hmac"], self._sign(data)):
            raise ValueError("this river state was not written by this installation: its signature does not match")
        self.estimator = pickle.loads(data)
        self.labels, self.names = set(meta["labels"]), set(meta["names"])
        self.recent = [bytes.fromhex(features) for features in meta["recent"]]
        self.revision = new_revision()

    def _sign(self, data: bytes) -> str:
        return hmac.new(self.key, data, hashlib.sha256).hexdigest()


def build(name: str, params: Mapping[str, Any], scale: bool) -> Any:
    """The river classifier called `name`, e.g. "arf" or "forest.ARFClassifier". Raises ValueError that says why not."""
    from river import base, multiclass, preprocessing

    named = NAMED.get(name) or Named(name)
    made = at_place(named.place)
    if not (isinstance(made, type) and issubclass(made, base.Classifier)):
        raise ValueError(f"river's {named.place} is not a classifier")
    estimator = create(named, params)
    if not estimator._multiclass:  # knows yes and no alone: one of it per label
        estimator = multiclass.OneVsRestClassifier(estimator)
    return preprocessing.StandardScaler() | estimator if scale else estimator


def create(named: Named, params: Mapping[str, Any]) -> Any:
    """`named` with `params` over its own; those that its part takes go to the part. Seeded, where it draws."""
    made = at_place(named.place)
    own = dict(params)
    parts = {}
    if named.part is not None:
        parameter, part = named.part
        theirs = {name: own.pop(name) for name in inspect.signature(at_place(part.place)).parameters if name in own}
        parts = {parameter: create(part, theirs)}
    seeded = {"seed": 0} if "seed" in inspect.signature(made).parameters else {}  # the same log, the same forest
    try:
        return made(**seeded | dict(named.params) | parts | own)
    except TypeError as error:
        raise ValueError(f"river's {named.place} does not take these params: {error}") from None


def at_place(place: str) -> Any:
    module, _, attribute = place.rpartition(".")
    try:
        return getattr(importlib.import_module(f"river.{module}"), attribute)
    except (ImportError, AttributeError):
        raise ValueError(
            f"river has no {place!r}; give a name ({', '.join(NAMED)}) or a place inside river such as 'forest.ARFClassifier'"
        ) from None


def features(data: bytes) -> dict[str, Any]:
    """A row for river: numbers as they are, a category as `name=value`: 1."""
    return {
        (k if isinstance(v, float) else f"{k}={v}"): (v if isinstance(v, float) else 1.0)
        for k, v in parse_row(data).items()
    }


def walk(value: Any, update: Any, inside: set[int]) -> None:
    """Feed every number and name reachable from `value` to `update`, in an order that depends on the content alone."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, complex)):
        update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        update(value.tobytes())
    elif id(value) in inside:
        update(b"cycle")
    else:
        inside.add(id(value))
        update(type(value).__qualname__.encode())
        for child in children(value):
            walk(child, update, inside)
        inside.discard(id(value))


def children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict) or hasattr(value, "items"):
        unseeded = (
            "_rng" if isinstance(value, dict) and value.get("seed", 0) is None else None
        )  # river's distributions: never used to learn
        kept = sorted((pair for pair in value.items() if pair[0] != unseeded), key=lambda pair: repr(pair[0]))
        return [child for key, item in kept for child in (repr(key), item)]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, (list, tuple)) or hasattr(value, "popleft"):
        return list(value)
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return [value.__qualname__]
    return [part for part in value.__reduce_ex__(4)[1:3] if part is not None]
