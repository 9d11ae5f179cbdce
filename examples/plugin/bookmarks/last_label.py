"""A kind that predicts the label which it learned last, whatever the input. It shows what a kind must implement."""

import hashlib
from collections.abc import Mapping, Sequence

from online.models import Answer, BadExample, Candidate, Example, Options, State, StatePart, pack_json, unpack_json


class LastLabel:
    """Implements `online.models.contract.Model`. Its memory is the label of each offset, so examples can be taken back."""

    subtracts = True

    def __init__(self, options: Options, device: str = "cpu") -> None:
        """Raises ValueError for an option: there is none, but what the input is."""
        if unknown := set(options) - {"input", "size"}:
            raise ValueError(f"unknown option {min(unknown)!r}")
        self.input = str(options.get("input", "text"))
        self.labels: dict[int, str] = {}

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        if not self.labels:
            return [Answer(None, ())] * len(inputs)
        last = self.labels[max(self.labels)]
        return [Answer(last, (Candidate(last, 1.0),), 1.0)] * len(inputs)

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            if example.kind != "label":
                raise BadExample(f"last_label learns labels, not examples of the kind {example.kind}")

    def learn(self, examples: Sequence[Example]) -> None:
        self.check(examples)
        self.labels |= {example.offset: example.label for example in examples}

    def unlearn(self, examples: Sequence[Example]) -> None:
        for example in examples:
            self.labels.pop(example.offset, None)

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: only the last label counts."""

    def facts(self) -> Mapping[str, float]:
        return {"labels": len(self.labels)}

    def state(self, serving_only: bool = False) -> State:
        return {"labels": StatePart({"labels": pack_json(sorted(self.labels.items()))}, serving=True)}

    def restore(self, state: State) -> None:
        self.labels = dict(unpack_json(state["labels"].tensors["labels"]))

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(sorted(self.labels.items())).encode()).hexdigest()

    def probes(self) -> list[tuple[bytes, str | None]]:
        return []

    def feature_epoch(self) -> str:
        return self.input
