"""The base of all models around an estimator of another library: the signed state, and a learn that is all or nothing.

    learn: examples -> prepared rows -> estimator, one by one, in order
                                        an error in the middle -> the last backup, and the examples since: BadExample
    state: pickle of the content + HMAC with this installation's key      restore: the HMAC is checked before any of it

These libraries persist their estimators by pickle, so a state is trusted only if it carries the HMAC of this
installation's key for this model: a file from elsewhere is refused before any of it is unpickled, and no caller can
send one. (The snapshot's own signature says which version the file belongs to.)
"""

import hashlib
import hmac
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from online.models.contract import BadExample, Example, Options, State, StatePart, new_revision, pack_json, unpack_json
from online.models.failures import CANNOT_LEARN, EstimatorFailures
from online.models.options import Option, resolve
from online.schemas.json_values import JSON, JSONObject

PROBES = 8
BACKUP_EVERY = 256  # examples from one backup to the next; an example that fails costs learning so many again
LONGEST_TEXT = 200  # characters of an untrusted parameter


class EstimatorBackup(NamedTuple):
    """The state at one moment: the pickled content, and the facts beside it as JSON."""

    content: bytes
    facts: JSON


class WrappedEstimator:
    """Base of the models around an estimator. A subclass keeps the estimator in `estimator` and adds `predict`.

    copies: whether predictions are made by a copy of the estimator, because its code might change when it predicts.
    """

    subtracts = False
    learner = "wrapped estimator"  # its name in messages

    def __init__(self, options: Options, table: Sequence[Option]) -> None:
        self.options = resolve(options, table)
        self.keys = parse_keys(self.options["key"])
        self.recent: list[bytes] = []
        self.copies = False
        self.failures = EstimatorFailures()
        self.revision = new_revision()
        self._copy: tuple[int, Any] | None = None
        self._since: list[tuple[Example, Any]] = []

    def _begin(self) -> None:
        """Take the first backup. A subclass calls it when its estimator exists. Raises ValueError."""
        try:
            self._back_up()
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ValueError(
                f"the estimator {self.options['estimator']!r} cannot be pickled, so no snapshot could hold it: {error}; "
                "use functions of a module in place of lambdas"
            ) from None

    # what a subclass says about itself

    def _content(self) -> object:
        """Return what is pickled and hashed."""
        raise NotImplementedError

    def _adopt(self, content: object) -> None:
        """Replace what `_content` returns."""
        raise NotImplementedError

    def _facts(self) -> JSONObject:
        """Return the rest of its state, as JSON."""
        raise NotImplementedError

    def _adopt_facts(self, facts: Mapping[str, object]) -> None:
        """Replace what `_facts` returns."""
        raise NotImplementedError

    def _checked(self, example: Example) -> Any:
        """Return the example as the estimator reads it. Raises BadExample."""
        raise NotImplementedError

    def _learn_one(self, example: Example, row: Any) -> None:
        raise NotImplementedError

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples in order, or none of them: an error restores the last backup."""
        rows = [self._checked(example) for example in examples]
        for example, row in zip(examples, rows, strict=True):
            try:
                self._learn_one(example, row)
            except Exception as error:  # code of another library or of the operator, which can raise anything
                self.failures.note_example(error)
                self._undo()
                raise BadExample(describe_failure(self.learner, error)) from error
        self._since += zip(examples, rows, strict=True)
        if len(self._since) >= BACKUP_EVERY:
            self._back_up()
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]
        self.revision = new_revision()

    def _back_up(self) -> None:
        self._backup, self._since = (
            EstimatorBackup(pickle.dumps(self._content(), protocol=5), pack_json(self._facts())),
            [],
        )

    def _undo(self) -> None:
        """Return to the state before the present call of `learn`."""
        self._adopt(pickle.loads(self._backup.content))
        self._adopt_facts(unpack_json(self._backup.facts))
        for example, row in self._since:
            self._learn_one(example, row)
        self.revision = new_revision()

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that the estimator refuses; a copy tries it where that is cheap."""
        rows = [self._checked(example) for example in examples]
        if self.copies:  # only the estimator itself knows what it accepts
            self._try(examples, rows)

    def _try(self, examples: Sequence[Example], rows: Sequence[object]) -> None:
        before = self._content()
        facts, copy = self._facts(), pickle.loads(pickle.dumps(before, protocol=5))
        try:
            self._adopt(copy)
            for example, row in zip(examples, rows, strict=True):
                self._learn_one(example, row)
        except Exception as error:  # as in `learn`
            self.failures.note_example(error)
            raise BadExample(describe_failure(self.learner, error)) from error
        finally:
            self._adopt(before)
            self._adopt_facts(facts)

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Raise NotImplementedError: estimators of libraries cannot subtract."""
        raise NotImplementedError(f"a {self.learner} cannot subtract; replay the log instead (subtracts is False)")

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: the estimator has no windows that we control."""

    def facts(self) -> Mapping[str, float]:
        """Return the figures of the state that versions show."""
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return [(data, None) for data in self.recent]

    def answering(self) -> object:
        """Return the estimator that predicts: itself, or the copy of its present content."""
        if not self.copies:
            return self._content()
        if self._copy is None or self._copy[0] != self.revision:
            self._copy = self.revision, pickle.loads(pickle.dumps(self._content(), protocol=5))
        return self._copy[1]

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        return compute_fingerprint(self._content())

    def state(self, serving_only: bool = False) -> State:
        """Return the pickled estimator with its HMAC."""
        data = pickle.dumps(self._content(), protocol=5)
        meta = {**self._facts(), "recent": [features.hex() for features in self.recent], "hmac": self._sign(data)}
        tensors = {"estimator": np.frombuffer(data, np.uint8), "meta": pack_json(meta)}
        return {"estimator": StatePart(tensors, serving=True, revision=self.revision)}

    def restore(self, state: State) -> None:
        """Unpickle the estimator, if its HMAC is this installation's. Raises ValueError."""
        tensors = state["estimator"].tensors
        data, meta = tensors["estimator"].tobytes(), unpack_json(tensors["meta"])
        if not self._is_signed(data, meta["hmac"]):
            raise ValueError(
                f"this {self.learner.split()[0]} state was not written by this installation: its signature does not match"
            )
        self._adopt(pickle.loads(data))
        self._adopt_facts(meta)
        self.recent = [bytes.fromhex(features) for features in meta["recent"]]
        self.revision = new_revision()
        self._backup, self._since = EstimatorBackup(data, pack_json(self._facts())), []

    def _sign(self, data: bytes) -> str:
        return compute_signature(*self.keys[0], data)

    def _is_signed(self, data: bytes, signature: object) -> bool:
        given = str(signature).encode()
        return any(hmac.compare_digest(compute_signature(*key, data).encode(), given) for key in self.keys)


def describe_failure(learner: str, error: Exception) -> str:
    """Return the reason of an example that cannot be learned."""
    return f"{CANNOT_LEARN} {learner} cannot learn it: {type(error).__name__}: {error}"


def parse_keys(text: str) -> list[tuple[str, bytes]]:
    """Return the ids and keys in the option `key`; the id is "" for a key without one."""
    pairs = (key.rpartition(":") for key in text.split())
    return [(id, bytes.fromhex(digits)) for id, _, digits in pairs] or [("", b"in memory only")]


def compute_signature(id: str, key: bytes, data: bytes) -> str:
    """ "ID.HEX", or HEX for a key without an id."""
    return f"{id}{id and '.'}{hmac.digest(key, data, 'sha256').hex()}"


def check_untrusted_estimator(options: Options, default: str, names: Sequence[str]) -> None:
    """Raise ValueError unless the estimator is one of `names` and its parameters are plain values."""
    estimator, params = options.get("estimator", default), options.get("params", {})
    if not isinstance(estimator, str) or estimator not in names:
        raise ValueError(f"option 'estimator' must be one of {', '.join(names)}")
    if not isinstance(params, dict) or not all(is_plain(value) for value in params.values()):
        raise ValueError("option 'params' must contain only numbers, strings, true and false")


def is_plain(value: object) -> bool:
    """Return whether it is a number, a boolean, None or a short text."""
    short = isinstance(value, str) and len(value) <= LONGEST_TEXT
    return value is None or isinstance(value, (bool, int, float)) or short


def compute_fingerprint(value: object) -> str:
    """Return sha256 of every number and name that is reachable from `value`, in whatever order it was made."""
    seen = hashlib.sha256()
    hash_content(value, seen.update, set())
    return seen.hexdigest()


def hash_content(value: Any, update: Callable[[bytes], None], inside: set[int]) -> None:
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


def list_children(value: Any) -> Iterable[object]:
    """Return the parts of a value, in an order set by content alone."""
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
