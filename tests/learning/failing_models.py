"""Models that fail."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from online.models import Answer, Candidate, Example, Options, State, StatePart, pack_json, unpack_json


class FailingModel:
    """A model that raises on the label "explode" and answers NaN after the label "nan"."""

    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.learned: list[str] = []

    def feature_epoch(self) -> str:
        return "none"

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        score = float("nan") if "nan" in self.learned else 0.5
        return [Answer("a", (Candidate("a", score),), score) for _ in inputs]

    def learn(self, examples: Sequence[Example]) -> None:
        for example in examples:
            self.learned.append(example.label)
            if example.label == "explode":
                raise RuntimeError("exploded")

    def unlearn(self, examples: Sequence[Example]) -> None:
        raise NotImplementedError

    def drifted(self, label: str | None, since: int) -> None:
        pass

    def facts(self) -> Mapping[str, float]:
        return {}

    def state(self, serving_only: bool = False) -> State:
        return {"all": StatePart({"learned": pack_json(self.learned), "none": np.zeros(1)}, serving=True)}

    def restore(self, state: State) -> None:
        self.learned = unpack_json(state["all"].tensors["learned"])

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self.learned).encode()).hexdigest()

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(b"", None)]


class OversizedModel(FailingModel):
    """A model that does not fit into the memory of any device but the CPU."""

    def __init__(self, options: Options, device: str = "cpu") -> None:
        super().__init__(options, device)
        self.device = device

    def learn(self, examples: Sequence[Example]) -> None:
        if self.device != "cpu":
            raise torch.OutOfMemoryError(f"no room on {self.device}")
        super().learn(examples)
