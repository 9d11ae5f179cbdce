"""Exported files read numbers that left their first scale as the service does."""

from typing import Any

import pytest

from online.models import Example
from online.plugins.export.exporter import unwrap
from online.plugins.export.formats import FORMATS
from tests.models.test_moving_ranges import grow, make_examples
from tests.plugins.export.cases import Case
from tests.plugins.export.test_parity import check_answers, pair

FOLLOWED = grow()[:700]
HEADS = {"slda": {}, "ridge with random features": {"head": "rp_ridge", "random_features": 64}}


def label_as(kind: str) -> list[tuple[float, str]]:
    return [(size, repr(size) if kind == "regressor" else label) for size, label in FOLLOWED]


def ask_within_ranges(pairs: list[tuple[float, str]], input: str) -> list[Example]:
    """The numbers of both ranges; those beyond all of them are what no model has seen."""
    return make_examples(pairs[::3], input)


def make_case(kind: str, input: str, options: dict[str, Any]) -> Case:
    size = {"size": 1} if input == "vector" else {}
    pairs = label_as(kind)
    examples = tuple(make_examples(pairs, input))
    return Case(
        f"moved {kind} {input}",
        kind,
        {"input": input, **size, **options},
        examples,
        lambda count: ask_within_ranges(pairs, input)[:count],
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("format", ["onnx", "safetensors"])
@pytest.mark.parametrize("input", ["table", "vector"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("classifier", HEADS["slda"]),
        ("classifier", HEADS["ridge with random features"]),
        ("logistic", {}),
        ("regressor", {}),
    ],
    ids=["slda", "random features", "logistic", "regressor"],
)
def test_a_file_gives_the_served_answers_after_numbers_moved(
    kind: str, options: dict[str, Any], input: str, format: str
) -> None:
    case = make_case(kind, input, options)
    model: Any = unwrap(case.version())[1]
    assert (model.columns if kind == "logistic" else model.inputs.columns).bands
    check_answers(*pair(case, FORMATS[format], case.instances(200)))
