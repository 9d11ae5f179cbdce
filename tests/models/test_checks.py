"""The checks that users run on a kind of their own: they pass for a sound kind, and name the contract that another one breaks."""

from collections.abc import Sequence
from typing import Any

import pytest

from online.models import Answer, Example, KindSpec, State
from online.models.checks import check_kind
from tests.models.nearest_mean import NearestMean

HERE = "tests.models.test_checks"


class PredictsAndLearns(NearestMean):  # type: ignore[misc]
    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        self.recent: list[bytes] = [*self.recent, *inputs][-8:]
        return list(super().predict(inputs, keys))


class ForgetsWhenItIsRestored(NearestMean):  # type: ignore[misc]
    def restore(self, state: State) -> None:
        super().restore(state)
        self.sums: dict[tuple[str, str], list[int]] = {
            key: sums for key, sums in self.sums.items() if key[0] != "apple"
        }


class TakesEverything(NearestMean):  # type: ignore[misc]
    def check(self, examples: Sequence[Example]) -> None:
        """Nothing is refused."""

    def learn(self, examples: Sequence[Example]) -> None:
        super().learn([example for example in examples if example.features.startswith(b"{")])


class KeepsTheFirstOfABatch(NearestMean):  # type: ignore[misc]
    def learn(self, examples: Sequence[Example]) -> None:
        super().learn(examples[:1])


class UnlearnsNothing(NearestMean):  # type: ignore[misc]
    def unlearn(self, examples: Sequence[Example]) -> None:
        """Nothing is unlearned."""


def test_a_sound_class_passes() -> None:
    check_kind("tests.models.nearest_mean:NearestMean")


def test_a_spec_and_a_built_in_kind_with_options_pass() -> None:
    path = "tests.models.nearest_mean:NearestMean"
    check_kind(KindSpec("nearest", path, "classification", inputs=("table",), is_exact=True))
    check_kind("regressor", {"input": "vector", "size": 3, "target_scale": 64.0})


@pytest.mark.parametrize(
    ("broken", "contract"),
    [
        (PredictsAndLearns, "predict does not change the model"),
        (ForgetsWhenItIsRestored, "a state survives its files"),
        (TakesEverything, "bad examples are refused"),
        (KeepsTheFirstOfABatch, "batches leave the same state as one by one"),
        (UnlearnsNothing, "unlearning leaves the state without the example"),
    ],
)
def test_the_contract_that_is_broken_is_named(broken: type[Any], contract: str) -> None:
    with pytest.raises(AssertionError, match=f"^{contract}: "):
        check_kind(f"{HERE}:{broken.__name__}")
