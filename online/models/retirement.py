"""Classes that are not answered for the time being, around any model that learns classes.

    retire, restore --> changes by offset; the last one about a class holds
    anything else   --> the model, which never learns about them
    its answers     --> without retired classes, whose chances go to the others

What a model learns does not depend on what is retired: a restored class answers as if it had never
been retired. Changes are kept under their offsets, so their order does not matter and each of them
can be retracted.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

from online.models.contract import (
    Answer,
    BadExample,
    Candidate,
    Example,
    Model,
    State,
    StatePart,
    choose,
    pack_json,
    unpack_json,
)

PART = "retired"  # part of a snapshot, once anything was retired or restored


class RetirableModel:
    """A model whose classes can be retired and restored.

    abstain_below: the model's own option, applied to a class that replaces a retired one.
    """

    def __init__(self, model: Model, abstain_below: float = 0.0) -> None:
        self.model, self.abstain_below = model, abstain_below
        self._set_changes({})

    def _set_changes(self, changes: Mapping[int, tuple[str, bool]]) -> None:
        """changes: offset -> (class, whether it was restored rather than retired)."""
        self.changes = dict(sorted(changes.items()))
        last = dict(self.changes.values())
        self.retired = frozenset(label for label, restored in last.items() if not restored)

    @property
    def subtracts(self) -> bool:
        """Whether the inner model un-learns by subtraction."""
        return self.model.subtracts

    def feature_epoch(self) -> str:
        """Return the name of the features that the inner model reads."""
        return self.model.feature_epoch()

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer as the inner model does, with the next class in place of a retired one."""
        answers = self.model.predict(inputs, keys)
        return [self._without_retired(answer) for answer in answers] if self.retired else answers

    def choose(self, inputs: Sequence[bytes]) -> list[str | None]:
        """Return the choices of `predict`."""
        return [answer.choice for answer in self.predict(inputs)] if self.retired else choose(self.model, inputs)

    def _without_retired(self, answer: Answer) -> Answer:
        """Return the answer with the chances of retired classes shared among the others.

        A class that replaces a retired one must be likely enough among all classes, because the
        input may belong to the retired one.
        """
        remaining = [candidate for candidate in answer.candidates if candidate.id not in self.retired]
        if len(remaining) == len(answer.candidates):
            return answer
        if not remaining:
            return Answer(None, ())
        total = math.fsum(candidate.score for candidate in remaining)
        candidates = tuple(Candidate(c.id, c.score / total if total else 1 / len(remaining)) for c in remaining)
        replaced = answer.choice in self.retired
        if answer.abstained or (replaced and remaining[0].score < self.abstain_below):
            return Answer(None, candidates, candidates[0].score, abstained=True)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn examples, and changes of classes."""
        changes, others = split_changes(examples)
        check_changes(changes)
        if others:
            self.model.learn(others)
        if changes:
            added = {example.offset: (example.label, example.kind == "restore") for example in changes}
            self._set_changes(self.changes | added)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        changes, others = split_changes(examples)
        check_changes(changes)
        self.model.check(others)

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove examples, and changes of classes."""
        changes, others = split_changes(examples)
        if others:
            self.model.unlearn(others)
        if changes:
            gone = {example.offset for example in changes}
            self._set_changes({offset: change for offset, change in self.changes.items() if offset not in gone})

    def drifted(self, label: str | None, since: int) -> None:
        """Pass an alarm of drift to the inner model."""
        self.model.drifted(label, since)

    # state

    def facts(self) -> Mapping[str, float]:
        """Return the inner model's figures and the number of retired classes."""
        facts = self.model.facts()
        return {**facts, "retired_labels": len(self.retired)} if self.changes else facts

    def fingerprint(self) -> str:
        """Return the model's own fingerprint as long as nothing was ever retired."""
        own = self.model.fingerprint()
        return hashlib.sha256(f"{own} {list(self.changes.items())}".encode()).hexdigest() if self.changes else own

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return self.model.probes()

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        parts = self.model.state(serving_only)
        changes = [[offset, *change] for offset, change in self.changes.items()]
        return {**parts, PART: StatePart({"changes": pack_json(changes)}, serving=True)} if changes else parts

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        parts = dict(state)
        own = parts.pop(PART, None)
        self.model.restore(parts)
        changes = unpack_json(own.tensors["changes"]) if own is not None else []
        self._set_changes({offset: (label, restored) for offset, label, restored in changes})


def check_changes(changes: Sequence[Example]) -> None:
    """Raise BadExample if a change names no class."""
    if not all(example.label for example in changes):
        raise BadExample("there is no class to retire or restore: the label is empty")


def split_changes(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Return the examples that retire or restore a class, and all others."""
    changes = [example for example in examples if example.kind in ("retire", "restore")]
    return changes, [example for example in examples if example.kind not in ("retire", "restore")]


def unwrap(model: Model) -> Model:
    """Return the model inside the wrapper of retired classes."""
    return model.model if isinstance(model, RetirableModel) else model
