"""The contract between a model and everything around it: what it reads, answers, learns and stores.

A model sees encoded inputs (bytes, as they are logged), never HTTP, disk or SQL. `predict` never
changes it. Its state is a set of named parts: serving loads the small ones (solved weights),
learning resumes from all of them.

    encoder.encode(instances) -> [bytes]      once, in the service; logged with the prediction
    model.predict([bytes])    -> [Answer]     in every server, from the live snapshot's serving parts
    model.learn([Example])                    in the learner, from the logged bytes
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import count, repeat
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from online.schemas.json_values import JSON, JSONObject

AnyArray = NDArray[Any]  # of any type of numbers, as files hold them
Tensors = Mapping[str, AnyArray]
Options = Mapping[str, JSON]
ExampleKind = Literal["label", "reward", "correction", "reply", "retire", "restore", "sums", "outcome", "declare"]
Scope = Literal["", "reply", "question"]

LARGEST_NUMBER = 1e300  # largest number a model may be taught, so that interval bounds stay finite


class Example(Struct, frozen=True):
    """One event to learn from. `offset` is its position in the stream and its identity.

    features: the encoded input; of sums, the file that a device sent (`contributions`). label: the right class (classification), the right reply's id
    (ranking) or the right number as text (regression); for a reward, what was answered; for a
    reply, the reply's own id; for retire and restore, the reply or class to change. text: the text
    of a new reply or of an example question. reward: in [0, 1]. scope: of a correction, how far it
    reaches: "reply" supersedes a reply wherever that was given to such questions, "question" changes
    near-duplicates of the question only, "" is learned as any example is; of a reply, the scope of the
    correction that brought it. superseded: the id of the reply that a correction of scope "reply" supersedes. signal: of a
    reward, what it was read from, such as "copy"; "" for a thumb.

    Two kinds are for routers: outcome, what the answer of the route in `label` took, as JSON in `text`; declare, the facts of the
    route in `label`, or of all of them where it is "", as JSON in `text`.
    """

    offset: int
    kind: ExampleKind
    features: bytes
    label: str
    text: str = ""
    reward: float = 1.0
    scope: Scope = ""
    superseded: str = ""
    signal: str = ""


class Candidate(NamedTuple):
    """One possible answer and its score. A tuple, because an answer may list a thousand of them."""

    id: str
    score: float
    text: str | None = None


def build_candidates(ids: Sequence[str], scores: Sequence[float]) -> tuple[Candidate, ...]:
    """Return candidates without texts. Several times as fast as one constructor call for each."""
    return tuple(map(tuple.__new__, repeat(Candidate), zip(ids, scores, repeat(None), strict=False)))


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to one input. `choice` is None before the first lesson and on abstention.

    propensity: the probability with which the policy chose it. interval: (low, high) around a
    predicted number; the number itself is the choice. acceptable: the ids of the candidates that are
    good enough to be given in place of the choice; None: all.
    """

    choice: str | None
    candidates: tuple[Candidate, ...]
    score: float = 0.0
    propensity: float = 1.0
    abstained: bool = False
    interval: tuple[float, float] | None = None
    acceptable: frozenset[str] | None = None

    @property
    def is_tried(self) -> bool:
        """Whether a policy chose something else than the best candidate, to learn about it."""
        return self.propensity < 1 and self.choice != self.candidates[0].id

    def without(self, exclude: Collection[str]) -> "Answer":
        """Return the answer with the ids in `exclude` ruled out: the next best candidate, or an abstention if that is
        not good enough.
        """
        left = tuple(candidate for candidate in self.candidates if candidate.id not in exclude)
        if self.choice not in exclude:
            return replace(self, candidates=left)
        if not left or (self.acceptable is not None and left[0].id not in self.acceptable):
            return Answer(None, left, abstained=True)
        return Answer(left[0].id, left, left[0].score)

    def top(self, count: int) -> "Answer":
        """Return the answer with its best `count` candidates, and its choice.

        An answer that a policy drew keeps every candidate that it was drawn from: its propensity is a probability
        among exactly these.
        """
        if len(self.candidates) <= count or self.propensity < 1:
            return self
        best = nlargest(count, self.candidates, key=attrgetter("score"))
        chosen = [each for each in self.candidates if each.id == self.choice and each not in best]
        return replace(self, candidates=(*best, *chosen))


@dataclass(slots=True)
class StatePart:
    """A named piece of state: tensors that are written to one file.

    serving: whether prediction needs it. revision: from `new_revision`; equal revisions mean equal
    tensors, so that the file need not be written again. derived: values that a reader computed from
    the tensors and caches with them.
    """

    tensors: Tensors
    serving: bool
    revision: int | None = None
    derived: JSONObject = field(default_factory=dict)


State = Mapping[str, StatePart]
new_revision = count(1).__next__  # unique within a process, across all model objects


def choose(model: "Model", inputs: Sequence[bytes]) -> list[str | None]:
    """Return the choices of `predict`, which some kinds find without listing candidates: several times as fast."""
    own: Callable[[Sequence[bytes]], list[str | None]] | None = getattr(model, "choose", None)
    return [answer.choice for answer in model.predict(inputs)] if own is None else own(inputs)


class BadExample(ValueError):
    """An event that this model can never learn. The model is unchanged; the learner refuses it."""


class Model(Protocol):
    """A model that learns online. tests/contracts/test_models.py runs over every registered kind."""

    @property
    def subtracts(self) -> bool:
        """Whether `unlearn` is exact. If not, the learner replays the log without retracted events."""

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input, without any change to the model.

        keys: one per input, the random key of an exploring policy; None, or no keys: the best
        known answer.
        """

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn all of the examples, or none. Raises BadExample that names the first bad one."""

    def check(self, examples: Sequence[Example]) -> None:
        """Raise what `learn` would raise, without any change to the model."""

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Return to the state that would exist if these examples had never been learned."""

    def drifted(self, label: str | None, since: int) -> None:
        """React to drift at about offset `since`, in one class or, with None, in all of them.

        The model relies on later examples and keeps everything it learned. A model without windows
        does nothing.
        """

    def facts(self) -> Mapping[str, float]:
        """Return a few numbers about the model, stored with the metrics of its versions."""

    def state(self, serving_only: bool = False) -> State:
        """Return the parts to publish. Solves the weights if they are out of date."""

    def restore(self, state: State) -> None:
        """Load a state. A model restored from its serving parts alone predicts but cannot learn."""

    def fingerprint(self) -> str:
        """Return sha256 of what was learned. Exact kinds give the same one for any order of examples."""

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return a bounded set of inputs that a proposed snapshot must answer, with the required choice.

        None as the choice accepts any answer.
        """

    def feature_epoch(self) -> str:
        """Return the name of the fixed mapping from encoded inputs to features."""


class SummingModel(Protocol):
    """An exact model whose examples can be summed by several processes, each a share of the log.

    Merged in the order of the log, their sums leave the state that learning every example here would have left. See
    `partial_sums`; tests/contracts/test_partial_sums.py runs over every registered kind that `has_partial_sums`.
    """

    @property
    def is_summing(self) -> bool:
        """Whether examples may be summed apart now: none of them decides what the others mean."""

    def sum_up(self, examples: Sequence[Example]) -> Tensors | None:
        """Sum examples as this model reads them now, without any change to it.

        None if they must be learned one after the other. Raises BadExample that names the first one that this model
        refuses. Its serving parts are all that it needs.
        """

    def merge(self, sums: Tensors) -> bool:
        """Learn examples by the sums that another process returned for them.

        False, without any change, if that would leave another state than learning the examples: they are read in
        another way by now, or held-out examples decide something in their midst.
        """


class Encoder(Protocol):
    """Turns each instance of a request into the bytes that are logged and learned from."""

    epoch: str  # opaque: names the mapping from an instance to bytes
    is_slow: bool  # it takes milliseconds, so that the event loop must not wait for it
    quick_chars: int  # length of a text that takes less, also where it is slow for longer ones

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Return one byte string per instance. Raises ValueError that names the instance and the cause."""


def join_parts(parts: Mapping[str, Tensors]) -> dict[str, AnyArray]:
    """Return the tensors of several parts in one table, as "part/name"."""
    return {f"{part}/{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def split_parts(tensors: Tensors) -> dict[str, dict[str, AnyArray]]:
    """Return the inverse of `join_parts`. Tensors that are of no part are left out."""
    parts: dict[str, dict[str, AnyArray]] = {}
    for key, tensor in tensors.items():
        part, slash, name = key.partition("/")
        if slash:
            parts.setdefault(part, {})[name] = tensor
    return parts


def pack_json(meta: object) -> NDArray[np.uint8]:
    """Return JSON as a uint8 tensor, so that a safetensors file can hold names beside numbers."""
    return np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)


def unpack_json(tensor: AnyArray) -> JSON:
    """Return the JSON value that `pack_json` stored."""
    return json.loads(tensor.tobytes())


def parse_number(label: str) -> float:
    """Parse a label as a number. Raises ValueError if it is not a finite number of usable size."""
    try:
        value = float(label)
    except ValueError:
        raise ValueError(f"the label {label[:40]!r} is not a number") from None
    if not abs(value) <= LARGEST_NUMBER:
        raise ValueError(f"the label {label[:40]!r} must be finite, and at most {LARGEST_NUMBER:g}")
    return value
