"""The names of the classes that numbers stand for."""

import pytest
from pydantic import TypeAdapter

from online.schemas.fields import Label
from online.schemas.labels import name_cell, name_label


@pytest.mark.parametrize(
    ("value", "name"),
    [(1, "1"), (1.0, "1"), (-0.0, "0"), (12.5, "12.5"), ("1.0", "1.0"), (10**19, "1" + "0" * 19)],
)
def test_a_number_of_json_is_named_by_its_value_and_a_text_by_itself(value: object, name: str) -> None:
    assert name_label(value) == TypeAdapter(Label).validate_python(value) == name


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("1", "1"),
        ("+1", "1"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("true", "True"),
        ("nan", "nan"),
        ("1_0", "1_0"),
    ],
)
def test_a_cell_that_is_written_as_a_number_is_named_by_its_value(cell: str, name: str) -> None:
    assert name_cell(cell) == name
