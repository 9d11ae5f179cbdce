"""The options of a kind: one table validates and documents them."""

from typing import Any

import pytest

from online.models import KINDS, create, describe_options
from online.models.options import TYPE_NAMES, Option, defaults, resolve
from online.models.wrappers import list_wrappers

RATE = Option("rate", 0.5, "The learning rate.", low=0.0, below=1.0)
TABLE = (RATE, Option("head", "slda", "The head.", choices=("slda", "ridge")), Option("priors", True, "Use priors."))


def test_an_option_that_is_not_given_has_its_default() -> None:
    assert resolve({"rate": 0.25}, TABLE) == {"rate": 0.25, "head": "slda", "priors": True}
    assert defaults(TABLE) == resolve({}, TABLE)


def test_an_integer_is_a_number_and_a_boolean_is_not() -> None:
    assert resolve({"rate": 0}, TABLE)["rate"] == 0
    with pytest.raises(ValueError, match="option 'rate' must be float, not True"):
        resolve({"rate": True}, TABLE)


def test_a_misspelt_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"unknown option 'sacle'; did you mean 'scale'\? Numbers lie in \[-scale"):
        create("classifier", {"input": "table", "sacle": 4.0})
    with pytest.raises(ValueError, match="unknown option 'speed'; this kind has head, priors, rate"):
        resolve({"speed": 3}, TABLE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.0}, "option 'rate' must be at least 0 and below 1, not 1.0"),
        ({"rate": float("nan")}, "not nan"),
        ({"head": "best"}, "option 'head' must be one of slda, ridge, not 'best'"),
        ({"priors": 1}, "option 'priors' must be bool, not 1"),
    ],
)
def test_an_invalid_value_is_refused_with_the_valid_ones(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(options, TABLE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_describes_its_options_in_sentences(kind: str) -> None:
    options = describe_options(kind)
    names = [option.name for option in options]
    assert len(set(names)) == len(names) and names[-1] == "challenger"
    for option in (*options, *(option for wrapper in list_wrappers() for option in wrapper.list_options())):
        assert option.type in TYPE_NAMES.values()
        assert option.help[0].isalnum() and option.help.endswith("."), option.name


def test_the_allowed_values_of_an_option_are_described() -> None:
    assert RATE.allowed == "at least 0 and below 1" and RATE.type == "number"
    assert TABLE[1].allowed == "one of slda, ridge" and TABLE[2].allowed == ""
    assert Option("level", 0.9, "A share.", low=0, high=1).allowed == "in [0, 1]"
