"""What can learn: the Model contract, and the table of names -> models.

A model sees encoded inputs (bytes, as they are logged), never HTTP, disk or SQL. `predict` never changes it. Its state
is a set of named parts: serving loads the small ones (solved weights), learning resumes from all of them.

    encoder.encode(instances) -> [bytes]      once, in the service; logged with the prediction
    model.predict([bytes])    -> [Answer]     in every server, from the live snapshot's serving parts
    model.learn([Example])                    in the learner, from the logged bytes
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import count, repeat
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[Any]]
Options = Mapping[str, Any]
Kind = Literal["label", "reward", "correction", "reply", "retire", "restore"]


@dataclass(frozen=True, slots=True)
class Example:
    """One thing to learn. `offset` is its place in the stream and its identity.

    label: the right label (classifier), reply id (ranker) or number as text (regressor); for a reward, what was
    answered; for reply, the reply's id; for retire and restore, whose they are: a reply or a label. text: a new
    reply's, or an example question's. reward: in [0, 1].
    """

    offset: int
    kind: Kind
    features: bytes
    label: str
    text: str = ""
    reward: float = 1.0


class Candidate(NamedTuple):
    """One of what it could have answered. A tuple: an answer may list a thousand."""

    id: str
    score: float
    text: str | None = None


def candidates_of(ids: Sequence[str], scores: Sequence[float]) -> tuple[Candidate, ...]:
    """Without texts; all of them at once, which is several times as fast as one by one."""
    return tuple(map(tuple.__new__, repeat(Candidate), zip(ids, scores, repeat(None), strict=False)))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says to one input. choice is None before it has seen any label, and when it abstains.

    propensity: the probability with which the policy chose it. interval: of a number that was predicted, its (low,
    high); the number itself is the choice.
    """

    choice: str | None
    candidates: tuple[Candidate, ...]
    score: float = 0.0
    propensity: float = 1.0
    abstained: bool = False
    interval: tuple[float, float] | None = None

    def without(self, besides: Collection[str]) -> "Answer":
        """What it says to somebody who wants none of these: the next best candidate, if there is one."""
        left = tuple(candidate for candidate in self.candidates if candidate.id not in besides)
        if self.choice not in besides:
            return replace(self, candidates=left)
        if not left:
            return Answer(None, (), abstained=True)
        return Answer(left[0].id, left, left[0].score)


@dataclass(slots=True)
class Part:
    """A named piece of state: tensors that are written to one file. serving: needed to predict.

    revision: from `new_revision`; equal revisions mean equal tensors, so the file need not be written again.
    """

    tensors: Tensors
    serving: bool
    revision: int | None = None
    derived: dict[str, Any] = field(default_factory=dict)  # what a reader computed from the tensors, kept with them


State = Mapping[str, Part]
new_revision = count(1).__next__  # never the same twice in a process, whichever model object asks


class BadExample(ValueError):
    """An event that this model can never learn. Nothing was changed; the learner sets it aside."""


class Model(Protocol):
    """One suite, tests/contracts/test_models.py, runs over every entry of `KINDS`."""

    @property
    def subtracts(self) -> bool:
        """Whether `unlearn` is exact; otherwise the learner replays the log without the retracted events."""

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """One answer per input; changes nothing.

        keys: one per input, what a policy that explores draws with; None, or no keys: the best answer it knows.
        """

    def learn(self, examples: Sequence[Example]) -> None:
        """All or nothing. Raises BadExample, naming the first example that cannot be learned."""

    def check(self, examples: Sequence[Example]) -> None:
        """What `learn` would raise of them; changes nothing."""

    def unlearn(self, examples: Sequence[Example]) -> None:
        """The state that never having seen them would have left."""

    def drifted(self, label: str | None, since: int) -> None:
        """The world changed about offset `since`, for one label or (None) for all: rely on what came after it.

        Nothing that was learned is lost by it. A model that has no windows to shorten does nothing.
        """

    def facts(self) -> Mapping[str, float]:
        """A few numbers about itself, for its versions' metrics."""

    def state(self, serving_only: bool = False) -> State:
        """The parts to publish. Solves the weights where that is still due."""

    def restore(self, state: State) -> None:
        """Take over a state; with its serving parts alone the model predicts but cannot learn."""

    def fingerprint(self) -> str:
        """sha256 of what was learned: equal for equal examples, whatever their order where the kind promises that."""

    def probes(self) -> list[tuple[bytes, str | None]]:
        """A bounded set of inputs a candidate must answer, with the choice it must make (None: any)."""

    def feature_epoch(self) -> str:
        """Names the fixed mapping from encoded inputs to features."""


class Encoder(Protocol):
    """Turns one instance of a request into the bytes that are logged and learned from."""

    epoch: str

    def encode(self, instances: Sequence[Any]) -> list[bytes]:
        """One byte string per instance. Raises ValueError that names the instance and the cause."""


LARGEST_NUMBER = 1e300  # of a label, so that what is predicted around it is finite too

KINDS: dict[str, str] = {
    "ranker": "online.models.ranker:Ranker",
    "classifier": "online.models.classifier:Classifier",
    "best_of": "online.models.best_of:BestOf",
    "knn": "online.models.knn:Knn",
    "logistic": "online.models.logistic:Logistic",
    "regressor": "online.models.regressor:Regressor",
    "river": "online.models.river:River",
    "tower": "online.models.tower:Tower",
}
LABELLED = tuple(kind for kind in KINDS if kind not in ("ranker", "regressor"))  # their labels can be retired


def create(kind: str, options: Options, device: str = "cpu") -> Model:
    """A model that has seen nothing. Raises ValueError for an unknown kind or option.

    The option `challenger`, of every kind, sets another model beside it: contest.py.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown model kind {kind!r}; one of {', '.join(KINDS)}")
    if "challenger" in options:
        from online.models.contest import Contest

        return Contest(kind, options, device)
    module, _, name = KINDS[kind].partition(":")
    make = cast(Callable[[Options, str], Model], getattr(import_module(module), name))
    made = make(options, device)
    return _retiring(made, options) if kind in LABELLED else made


def _retiring(model: Model, options: Options) -> Model:
    from online.models.retired import Retiring

    return Retiring(model, options.get("abstain_below", 0.0))


def challenger_of(kind: str, options: Options) -> str:
    """Its kind; "" where there is none. What is no kind at all is refused when the model is made."""
    told = options.get("challenger")
    return str(told.get("kind") or kind) if isinstance(told, Mapping) else ""


def signed(kind: str) -> bool:
    """Whether its state is signed by a key, the option `key`, because reading it could run code."""
    return kind in ("river", "best_of")


def recipe(kind: str, options: Options) -> str:
    """Names a kind with its options: a snapshot made by another recipe is not taken up. Secrets are no part of it."""
    told = {name: value for name, value in options.items() if name != "key"}
    return hashlib.sha256(json.dumps([kind, told], sort_keys=True).encode()).hexdigest()[:16]


def packed(meta: Any) -> NDArray[np.uint8]:
    """JSON as a tensor, so that a safetensors file holds names beside numbers."""
    return np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)


def unpacked(tensor: NDArray[Any]) -> Any:
    return json.loads(tensor.tobytes())


def number_of(label: str) -> float:
    """The number that a label stands for. Raises ValueError where it is none, or none that can be predicted."""
    try:
        value = float(label)
    except ValueError:
        raise ValueError(f"the label {label[:40]!r} is not a number") from None
    if not abs(value) <= LARGEST_NUMBER:
        raise ValueError(f"the label {label[:40]!r} must be finite, and at most {LARGEST_NUMBER:g}")
    return value


def take(options: Options, allowed: Mapping[str, Any]) -> dict[str, Any]:
    """`options` over the defaults in `allowed`. Raises ValueError for a name or a type that does not fit."""
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r}; this kind knows {', '.join(sorted(allowed))}")
    for name, value in options.items():
        default = allowed[name]
        numeric = isinstance(default, float) and isinstance(value, (int, float)) and not isinstance(value, bool)
        if default is not None and type(value) is not type(default) and not numeric:
            raise ValueError(f"option {name!r} must be {type(default).__name__}, not {value!r}")
    return {**allowed, **options}


def check_limits(options: Options, limits: Mapping[str, tuple[float, float]]) -> None:
    """Raises ValueError for an option outside its [low, high]; a NaN is outside of everything."""
    for name, (low, high) in limits.items():
        if not low <= options[name] <= high:
            raise ValueError(f"option {name!r} must lie in [{low:g}, {high:g}], not {options[name]}")
