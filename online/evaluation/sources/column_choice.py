"""Chooses the columns of a table that are features: all but those to drop, or only those that are named.

    {"period": 7, "price": 0.3}    --ColumnChoice.of_instance, drop = ("period",)-->    {"price": 0.3}

A name may be a shell pattern, such as `vic*`. Only features are chosen: a column that is left out can still be
the time or the task of an example.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec.structs import replace

from online.errors import BadInput
from online.evaluation.sources.log_format import Line, LoggedPrediction
from online.models.encoders.rows import TO_JSON
from online.schemas.events import Event
from online.schemas.json_values import JSONArray

MAX_NAMED = 20  # columns that a message lists


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """drop: columns that are no features. features: the only ones that are; empty: all. Names, or shell patterns."""

    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.drop or self.features)

    def wants(self, name: str) -> bool:
        """Return whether a column is a feature."""
        return is_wanted(name, self.drop, self.features)

    def names_feature(self, name: str) -> bool:
        """Return whether the user has named the column as a feature, by its name or a pattern."""
        return bool(self.features) and self.wants(name)

    # what is left of a row

    def of_instance(self, instance: object) -> object:
        """Return the instance without the columns that are left out; anything but a table as it is."""
        if not self or not isinstance(instance, dict):
            return instance
        return {name: value for name, value in instance.items() if self.wants(name)}

    def of_instances(self, instances: JSONArray) -> list[object]:
        """Return the instances with the chosen columns only."""
        return [*map(self.of_instance, instances)] if self else instances

    def of_features(self, features: bytes) -> bytes:
        """Return an encoded row (see `TableEncoder`) without them; b"" stays, of a row whose contents are gone.

        Raises ValueError for what is no JSON.
        """
        return TO_JSON(self.of_instance(json.loads(features))).encode() if features else features

    def of_line(self, line: Line) -> Line:
        """Change a line of a log of ours, and return it. Raises ValueError for features that are no JSON."""
        line.instance = self.of_instance(line.instance)
        if isinstance(line, LoggedPrediction):
            line.features = self.of_features(line.features or b"")
        else:
            line.event = self._of_event(line.event)
        return line

    def _of_event(self, event: Event) -> Event:
        target = event.target
        if target is not None:
            target = self._of_event(target)
        return replace(event, features=self.of_features(event.features), target=target)

    # checks

    def check(self, name: str, label: str, known: Sequence[str]) -> None:
        """Raise BadInput for a column that does not exist, for the label, and if no feature is left.

        name: of the source. label: what its label is called. known: the features that there are.
        """
        if both := sorted({*self.drop} & {*self.features}):
            raise BadInput(f"--drop and --feature both name {both[0]!r}; leave out one of them")
        for flag, given in (("--drop", self.drop), ("--feature", self.features)):
            for each in given:
                if any(matches(column, each) for column in known):
                    continue
                if each == label:
                    raise BadInput(
                        f"{flag} {each}: {each!r} is the label of {name}, which is what is predicted and no feature"
                    )
                raise BadInput(f"{flag} {each}: {name} has no feature {each!r}{describe_known(each, known)}")
        if not any(map(self.wants, known)):
            raise BadInput(f"--drop and --feature leave no feature of {name}, which has {list_names(known)}")

    def are_all_known(self, known: Iterable[str]) -> bool:
        """Return whether each name of the choice, and each pattern, stands for one of these columns."""
        columns = [*known]
        return all(any(matches(column, each) for column in columns) for each in (*self.drop, *self.features))


ALL_COLUMNS = ColumnChoice()


@lru_cache(maxsize=4_096)
def is_wanted(name: str, drop: tuple[str, ...], features: tuple[str, ...]) -> bool:
    """Return whether a column is a feature. Cached, because every row asks for each of its columns."""
    if any(matches(name, each) for each in drop):
        return False
    return not features or any(matches(name, each) for each in features)


def matches(column: str, given: str) -> bool:
    """Return whether a name or a pattern stands for a column. Its own name always does, also one with a `*` or a `[`."""
    return column == given or fnmatchcase(column, given)


def describe_known(given: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown column: the closest name, or all names."""
    close = get_close_matches(given, known, n=1)
    return (f"; did you mean {close[0]!r}? It has " if close else "; it has ") + list_names(known)


def list_names(names: Sequence[str], most: int = MAX_NAMED) -> str:
    """Return "a, b", or "a, b and 7 more" where there are more than `most`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
