"""Finds the place where a setting belongs, for a name that was given in another place.

port        the service, before the first [[models]] table
drift       a [[models]] table
learn_on    its [models.placement] table
shrinkage   its `options`: those of its kind, which the caller lists
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from pydantic import BaseModel

from online.settings.fields import Settings
from online.settings.models import GoldenQuestionSettings, ModelSettings, Placement

ListOptions = Mapping[str, Sequence[str]]  # option -> the kinds that have it
CLOSE = 0.8  # ratio of difflib above which a name is taken for a misspelling of one that belongs elsewhere
PLACES: dict[str, type[BaseModel]] = {
    "service": Settings,
    "model": ModelSettings,
    "placement": Placement,
    "golden question": GoldenQuestionSettings,
}
WHERE = {
    "service": "a setting of the service: write it at the top of online.toml, before the first table",
    "model": "a setting of a model: write it in its [[models]] table of online.toml",
    "placement": "a setting of a model's placement: write it in the [models.placement] table below its [[models]] table",
    "golden question": "a part of a golden question: write it in `golden_questions` of a [[models]] table",
}


def find_place(
    name: str, list_options: Callable[[], ListOptions] = dict, given_in: str = "", is_exact: bool = False
) -> str:
    """Return a clause that says where a setting belongs, or one that is spelt much like it; "" if it belongs nowhere.

    given_in: the place where it was given and is unknown, `options` for those of a model. is_exact: whether to look for the
    very name only.
    """
    for find in (find_exact,) if is_exact else (find_exact, find_close):
        if found := find(
            name, [(place, each) for place, table in PLACES.items() if place != given_in for each in table.model_fields]
        ):
            return f"{found[1]!r} is {WHERE[found[0]]}"
        options = {} if given_in == "options" else list_options()
        if found := find(name, [("", each) for each in options]):
            return describe_option(found[1], options)
    return ""


def find_exact(name: str, known: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the place of a name."""
    return next((pair for pair in known if pair[1] == name), None)


def find_close(name: str, known: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the place of a name that is nearly the same."""
    close = get_close_matches(name, [each for _, each in known], n=1, cutoff=CLOSE)
    return find_exact(close[0], known) if close else None


def describe_option(name: str, options: ListOptions) -> str:
    """Return the remedy for an option that was given as a setting."""
    kinds = options[name]
    of = f"the kind {kinds[0]}" if len(kinds) == 1 else f"the kinds {', '.join(kinds)}"
    return f"{name!r} is an option of {of}: write it in the options of a [[models]] table, options = {{ {name} = ... }}"
