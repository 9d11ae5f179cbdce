"""The most frequent class, whatever the input: what every other classifier must beat.

    label, reward -> counts of each class -> chances: each class's share

A member of `best_of` that keeps it from being worse than this on streams whose inputs say little. Its
memory is a count for each class, so neither order nor batches matter, and unlearning subtracts.
"""

import hashlib
from collections.abc import Mapping, Sequence
from operator import itemgetter

from online.models.contract import (
    Answer,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    build_candidates,
    pack_json,
    unpack_json,
)
from online.models.encoders.text import TextEncoder
from online.models.example_checks import check_all
from online.models.options import INPUT, SIZE, require_size, resolve
from online.schemas.events import is_positive

FAINT = 0.1  # count of a class that was never right
PROBES = 8

OPTIONS = (INPUT, SIZE)


class Majority:
    """Class frequencies. Implements `contract.Model`."""

    subtracts = is_summing = True

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        require_size(self.options)
        self.input: str = self.options["input"]
        self.counts: dict[str, list[int]] = {}  # class -> how often it was right, and how often wrong
        self.recent: list[bytes] = []
        self._answer: Answer | None = None  # to every input, until the next lesson

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return TextEncoder.epoch if self.input == "text" else self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer the most frequent class, whatever the input."""
        if self._answer is None:
            self._answer = self._compute_answer()
        return [self._answer] * len(inputs)

    def _compute_answer(self) -> Answer:
        """Return all known classes, the most frequent first; equally frequent ones in the order of the alphabet."""
        if not self.counts:
            return Answer(None, ())
        balances = sorted(((right - wrong, label) for label, (right, wrong) in self.counts.items()), key=itemgetter(1))
        balances.sort(key=itemgetter(0), reverse=True)
        weights = [max(balance, 0) + FAINT for balance, _ in balances]
        total = sum(weights)
        candidates = build_candidates([label for _, label in balances], [weight / total for weight in weights])
        return Answer(candidates[0].id, candidates, candidates[0].score)

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples in order, all or none of them. Raises BadExample."""
        self.check(examples)
        self._count(examples, 1)
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        check_all(examples, "majority model", self.input, self.options["size"])

    def sum_up(self, examples: Sequence[Example]) -> Tensors:
        """Return the counts of the examples, without learning them."""
        share = Majority(self.options)
        share.learn(examples)
        counts = pack_json(list(share.counts.items()))
        return {"counts": counts, "recent": pack_json([features.hex() for features in share.recent])}

    def merge(self, sums: Tensors) -> bool:
        """Add counts of another process; they always fit."""
        self._answer = None
        for label, (right, wrong) in unpack_json(sums["counts"]):
            counts = self.counts.setdefault(label, [0, 0])
            counts[0] += right
            counts[1] += wrong
        newest = [bytes.fromhex(features) for features in unpack_json(sums["recent"])]
        self.recent = [*self.recent, *newest][-PROBES:]
        return True

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from the state."""
        self._count(examples, -1)
        gone = {example.features for example in examples}
        self.recent = [features for features in self.recent if features not in gone]

    def _count(self, examples: Sequence[Example], times: int) -> None:
        self._answer = None
        for example in examples:
            counts = self.counts.setdefault(example.label, [0, 0])
            counts[0 if is_positive(example.reward) else 1] += times
            if not any(counts):
                del self.counts[example.label]

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: the counts are of the whole log."""

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        return hashlib.sha256(f"{self.feature_epoch()} {sorted(self.counts.items())}".encode()).hexdigest()

    def facts(self) -> Mapping[str, float]:
        """Return the figures of the state that versions show."""
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        parts = {"counts": StatePart({"counts": pack_json(sorted(self.counts.items()))}, serving=True)}
        if not serving_only:
            recent = pack_json([features.hex() for features in self.recent])
            parts["memory"] = StatePart({"recent": recent}, serving=False)
        return parts

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        self.counts = {label: list(counts) for label, counts in unpack_json(state["counts"].tensors["counts"])}
        self.recent = []
        if "memory" in state:
            self.recent = [bytes.fromhex(features) for features in unpack_json(state["memory"].tensors["recent"])]
        self._answer = None
