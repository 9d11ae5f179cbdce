"""Any river classifier under our contract: it learns one example at a time, in order, from tables.

River persists its models by pickle, so a state is trusted only if it carries the HMAC of this
installation's key for this model: a file from elsewhere is refused before any of it is unpickled, and
no caller can send one. (The snapshot's own signature says which version the file belongs to.)
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

from online.models.contract import (
    Answer,
    BadExample,
    Candidate,
    Example,
    Options,
    Part,
    State,
    new_revision,
    pack_json,
    unpack_json,
)
from online.models.encoders.values import parse_row
from online.models.options import KEY, Option, resolve
from online.schemas.events import is_positive

PROBES = 8
LARGEST = 1e100
LONGEST_TEXT = 200  # characters of an untrusted parameter
OPTIONS = (
    Option(
        "estimator",
        "softmax",
        "A short name (logistic, softmax, ftrl, hat, arf, srp, knn) or a place inside river, such as naive_bayes.GaussianNB.",
    ),
    Option("params", {}, "Keyword arguments of the estimator, as river documents them."),
    Option("scale", True, "Put river's StandardScaler in front of it. Turn it off for trees and counts."),
    KEY,
)


@dataclass(frozen=True, slots=True)
class EstimatorSpec:
    """A river class and its usual parameters.

    part: a parameter that is itself an object of river, and how to build that.
    """

    place: str
    params: Mapping[str, Any] = field(default_factory=dict)
    part: "tuple[str, EstimatorSpec] | None" = None


NAMED = {
    "logistic": EstimatorSpec("linear_model.LogisticRegression"),
    "softmax": EstimatorSpec("linear_model.SoftmaxRegression"),
    "ftrl": EstimatorSpec(
        "linear_model.LogisticRegression", part=("optimizer", EstimatorSpec("optim.FTRLProximal", {"alpha": 0.1}))
    ),
    "hat": EstimatorSpec("tree.HoeffdingAdaptiveTreeClassifier", {"grace_period": 50, "delta": 0.01}),
    "arf": EstimatorSpec("forest.ARFClassifier"),
    "srp": EstimatorSpec("ensemble.SRPClassifier"),
    # exact search: river's own default, a graph, is not the same in every run
    "knn": EstimatorSpec(
        "neighbors.KNNClassifier", part=("engine", EstimatorSpec("neighbors.LazySearch", {"window_size": 500}))
    ),
}


def check_untrusted(options: Options) -> None:
    """Raise ValueError unless the estimator is one of NAMED and its parameters are plain values."""
    estimator, params = options.get("estimator", "softmax"), options.get("params", {})
    if not isinstance(estimator, str) or estimator not in NAMED:
        raise ValueError(f"option 'estimator' must be one of {', '.join(NAMED)}")
    if not isinstance(params, dict) or not all(is_plain(value) for value in params.values()):
        raise ValueError("option 'params' must contain only numbers, strings, true and false")


def is_plain(value: Any) -> bool:
    """Whether it is a number, a boolean, None or a short text."""
    short = isinstance(value, str) and len(value) <= LONGEST_TEXT
    return value is None or isinstance(value, (bool, int, float)) or short


class River:
    """A river classifier. Implements `contract.Model`.

    Drift detection inside an estimator, such as the ADWIN of `hat`, `arf` and `srp`, is river's own.
    """

    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        self.keys = parse_keys(self.options["key"])
        self.estimator = build_estimator(self.options["estimator"], self.options["params"], self.options["scale"])
        self.recent: list[bytes] = []
        self.labels: set[str] = set()
        self.names: set[str] = set()  # features that it has learned from
        self.revision = new_revision()

    def feature_epoch(self) -> str:
        return "table"

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return [self._answer(to_river_row(data)) for data in inputs]

    def _answer(self, row: dict[str, Any]) -> Answer:
        known = {
            name: value for name, value in row.items() if name in self.names
        }  # river would add unknown ones to its state
        try:
            chances = self.estimator.predict_proba_one(known) if self.labels else {}
        except (ArithmeticError, ValueError):  # numbers outside the domain of its formulas: abstain from this row alone
            return Answer(None, (), abstained=True)
        # river sums over sets, whose order differs between processes: the last digits must not decide
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
        if example.kind != "label" and not (example.kind == "reward" and is_positive(example.reward)):
            raise BadExample(
                "a river classifier learns labels and rewards of at least 0.5; it cannot learn from wrong answers"
            )
        if not example.label:
            raise BadExample("there is no class to learn: the prediction it refers to had none")
        try:
            row = to_river_row(example.features)
        except (ValueError, AttributeError):
            raise BadExample("features that are not a JSON object") from None
        too_large = next((name for name, value in row.items() if abs(value) > LARGEST), None)
        if too_large is not None:
            raise BadExample(
                f"{too_large} is {row[too_large]:g}: numbers beyond {LARGEST:g} make a running variance overflow for good"
            )
        return row

    def unlearn(self, examples: Sequence[Example]) -> None:
        raise NotImplementedError("a river model cannot subtract; replay the log instead (subtracts is False)")

    def fingerprint(self) -> str:
        seen = hashlib.sha256()
        hash_content(self.estimator, seen.update, set())
        return seen.hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: a river model has no windows that we control."""

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
        tensors = {"estimator": np.frombuffer(data, np.uint8), "meta": pack_json(meta)}
        return {"estimator": Part(tensors, serving=True, revision=self.revision)}

    def restore(self, state: State) -> None:
        tensors = state["estimator"].tensors
        data, meta = tensors["estimator"].tobytes(), unpack_json(tensors["meta"])
        if not self._is_signed(data, meta["hmac"]):
            raise ValueError("this river state was not written by this installation: its signature does not match")
        self.estimator = pickle.loads(data)
        self.labels, self.names = set(meta["labels"]), set(meta["names"])
        self.recent = [bytes.fromhex(features) for features in meta["recent"]]
        self.revision = new_revision()

    def _sign(self, data: bytes) -> str:
        return compute_signature(*self.keys[0], data)

    def _is_signed(self, data: bytes, signature: object) -> bool:
        given = str(signature).encode()
        return any(hmac.compare_digest(compute_signature(*key, data).encode(), given) for key in self.keys)


def parse_keys(text: str) -> list[tuple[str, bytes]]:
    """The ids and keys in the option `key`; the id is "" for a key without one."""
    pairs = (key.rpartition(":") for key in text.split())
    return [(id, bytes.fromhex(digits)) for id, _, digits in pairs] or [("", b"in memory only")]


def compute_signature(id: str, key: bytes, data: bytes) -> str:
    """ "ID.HEX", or HEX for a key without an id."""
    return f"{id}{id and '.'}{hmac.digest(key, data, 'sha256').hex()}"


def build_estimator(name: str, params: Mapping[str, Any], scale: bool) -> Any:
    """Build the river classifier `name`, e.g. "arf" or "forest.ARFClassifier".

    Raises ValueError that says why it cannot be built.
    """
    from river import base, multiclass, preprocessing

    spec = NAMED.get(name) or EstimatorSpec(name)
    found = import_from_river(spec.place)
    if not (isinstance(found, type) and issubclass(found, base.Classifier)):
        raise ValueError(f"river's {spec.place} is not a classifier")
    estimator = build_part(spec, params)
    if not estimator._multiclass:  # binary: use one per class
        estimator = multiclass.OneVsRestClassifier(estimator)
    return preprocessing.StandardScaler() | estimator if scale else estimator


def build_part(spec: EstimatorSpec, params: Mapping[str, Any]) -> Any:
    """Build a river object with `params` over its usual ones; those of its part go to the part.

    A class with a parameter `seed` gets seed 0, so that the same log grows the same forest.
    """
    found = import_from_river(spec.place)
    own = dict(params)
    parts = {}
    if spec.part is not None:
        parameter, part = spec.part
        theirs = {
            name: own.pop(name) for name in inspect.signature(import_from_river(part.place)).parameters if name in own
        }
        parts = {parameter: build_part(part, theirs)}
    seeded = {"seed": 0} if "seed" in inspect.signature(found).parameters else {}
    try:
        return found(**seeded | dict(spec.params) | parts | own)
    except TypeError as error:
        raise ValueError(f"river's {spec.place} does not take these params: {error}") from None


def import_from_river(place: str) -> Any:
    """The attribute of river at "module.Name". Raises ValueError if there is none."""
    module, _, attribute = place.rpartition(".")
    try:
        return getattr(importlib.import_module(f"river.{module}"), attribute)
    except (ImportError, AttributeError):
        raise ValueError(
            f"river has no {place!r}; use a short name ({', '.join(NAMED)}) or a place inside river such as 'forest.ARFClassifier'"
        ) from None


def to_river_row(data: bytes) -> dict[str, Any]:
    """A row for river: numbers unchanged, a category as `name=value`: 1."""
    return {
        (k if isinstance(v, float) else f"{k}={v}"): (v if isinstance(v, float) else 1.0)
        for k, v in parse_row(data).items()
    }


def hash_content(value: Any, update: Any, inside: set[int]) -> None:
    """Pass every number and name reachable from `value` to `update`, in an order set by content alone."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, complex)):
        update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        update(value.tobytes())
    elif id(value) in inside:
        update(b"cycle")
    else:
        inside.add(id(value))
        update(type(value).__qualname__.encode())
        for child in list_children(value):
            hash_content(child, update, inside)
        inside.discard(id(value))


def list_children(value: Any) -> Iterable[Any]:
    """The parts of a value, in an order set by content alone."""
    if isinstance(value, dict) or hasattr(value, "items"):
        unseeded = (
            "_rng" if isinstance(value, dict) and value.get("seed", 0) is None else None
        )  # of river's distributions: never used to learn
        kept = sorted((pair for pair in value.items() if pair[0] != unseeded), key=lambda pair: repr(pair[0]))
        return [child for key, item in kept for child in (repr(key), item)]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, (list, tuple)) or hasattr(value, "popleft"):
        return list(value)
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return [value.__qualname__]
    return [part for part in value.__reduce_ex__(4)[1:3] if part is not None]
