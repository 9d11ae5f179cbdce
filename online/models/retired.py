"""Labels that are not given for now, around any model that learns labels.

    retire, restore --> changes by offset; the last one about a label holds
    anything else   --> the model, which never hears of them
    its answers     --> without what is retired: its chance goes to the labels that are left

What a model learns does not depend on what is retired: a label that is restored answers as if it had never been away.
Changes are kept under their offsets, so their order does not matter and any can be taken back.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

from online.models import Answer, BadExample, Candidate, Example, Model, Part, State, packed, unpacked

PART = "retired"  # there once anything was retired or restored


class Retiring:
    """abstain_below: as the model's own option, for a label that answers in the place of a retired one."""

    def __init__(self, model: Model, abstain_below: float = 0.0) -> None:
        self.model, self.abstain_below = model, abstain_below
        self._take_changes({})

    def _take_changes(self, changes: Mapping[int, tuple[str, bool]]) -> None:
        """changes: offset -> (label, whether it was restored)."""
        self.changes = dict(sorted(changes.items()))
        last = dict(self.changes.values())
        self.retired = frozenset(label for label, restored in last.items() if not restored)

    @property
    def subtracts(self) -> bool:
        return self.model.subtracts

    def feature_epoch(self) -> str:
        return self.model.feature_epoch()

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        answers = self.model.predict(inputs, keys)
        return [self._without_retired(answer) for answer in answers] if self.retired else answers

    def _without_retired(self, answer: Answer) -> Answer:
        """A label in another's place must be likely enough among all of them: the input may be the retired one's."""
        left = [candidate for candidate in answer.candidates if candidate.id not in self.retired]
        if len(left) == len(answer.candidates):
            return answer
        if not left:
            return Answer(None, ())
        total = math.fsum(candidate.score for candidate in left)
        candidates = tuple(Candidate(c.id, c.score / total if total else 1 / len(left)) for c in left)
        replaced = answer.choice in self.retired
        if answer.abstained or (replaced and left[0].score < self.abstain_below):
            return Answer(None, candidates, candidates[0].score, abstained=True)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        changes, others = parted(examples)
        check_changes(changes)
        if others:
            self.model.learn(others)
        if changes:
            told = {example.offset: (example.label, example.kind == "restore") for example in changes}
            self._take_changes(self.changes | told)

    def check(self, examples: Sequence[Example]) -> None:
        changes, others = parted(examples)
        check_changes(changes)
        self.model.check(others)

    def unlearn(self, examples: Sequence[Example]) -> None:
        changes, others = parted(examples)
        if others:
            self.model.unlearn(others)
        if changes:
            gone = {example.offset for example in changes}
            self._take_changes({offset: change for offset, change in self.changes.items() if offset not in gone})

    def drifted(self, label: str | None, since: int) -> None:
        self.model.drifted(label, since)

    # state

    def facts(self) -> Mapping[str, float]:
        facts = self.model.facts()
        return {**facts, "retired_labels": len(self.retired)} if self.changes else facts

    def fingerprint(self) -> str:
        """The model's own while nothing was ever retired."""
        own = self.model.fingerprint()
        return hashlib.sha256(f"{own} {list(self.changes.items())}".encode()).hexdigest() if self.changes else own

    def probes(self) -> list[tuple[bytes, str | None]]:
        return self.model.probes()

    def state(self, serving_only: bool = False) -> State:
        parts = self.model.state(serving_only)
        told = [[offset, *change] for offset, change in self.changes.items()]
        return {**parts, PART: Part({"changes": packed(told)}, serving=True)} if told else parts

    def restore(self, state: State) -> None:
        parts = dict(state)
        own = parts.pop(PART, None)
        self.model.restore(parts)
        told = unpacked(own.tensors["changes"]) if own is not None else []
        self._take_changes({offset: (label, restored) for offset, label, restored in told})


def check_changes(changes: Sequence[Example]) -> None:
    if not all(example.label for example in changes):
        raise BadExample("there is no label to retire or restore")


def parted(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """What retires or restores a label, and everything else."""
    changes = [example for example in examples if example.kind in ("retire", "restore")]
    return changes, [example for example in examples if example.kind not in ("retire", "restore")]
