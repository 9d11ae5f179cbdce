"""Reads which models to replay: `--model KIND[:NAME=VALUE,...]`, or a file with grids of options.

[[candidate]]
name = "ridge"
kind = "classifier"
options = { head = "rp_ridge" }
grid = { random_features = [512, 2048], seed = [1, 2] }      # four models: every combination
"""

import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.models import KINDS, admit_all, find_kind, is_import_path
from online.schemas.json_values import JSONArray, JSONObject
from online.settings import describe


class CandidateTable(BaseModel):
    """A candidate of a file, with options that vary over a grid."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    name: str = ""
    options: JSONObject = Field(default_factory=dict)
    grid: dict[str, JSONArray] = Field(default_factory=dict)
    every: int = Field(1, ge=1)

    def specs(self) -> Iterator[CandidateSpec]:
        """Yield a candidate for each combination of the grid."""
        base = self.name or self.kind
        for values in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, values, strict=True))
            name = " ".join([base, *(f"{option}={value}" for option, value in chosen.items())])
            yield CandidateSpec(self.kind, {**self.options, **chosen}, name, every=self.every)


class CandidateFile(BaseModel):
    """A file of candidates."""

    model_config = ConfigDict(extra="forbid")

    candidate: list[CandidateTable] = Field(min_length=1)


def collect_candidates(
    models: Sequence[str], options: Mapping[str, object], file: Path | None, like: CandidateSpec
) -> list[CandidateSpec]:
    """Return all candidates, the champion first.

    options: of every --model. like: the device and the other settings that they share; only for those of the operator
    is a kind imported that this package does not provide.

    Raises BadInput for what names no model, or two by one name.
    """
    candidates = [parse_candidate(text, options) for text in models]
    candidates += read_candidate_file(file) if file else []
    if not candidates:
        raise BadInput(
            f"say which model with --model, one of {', '.join(KINDS)}, or which file of them with --candidates"
        )
    if like.from_operator:
        admit_own_kinds(candidates)
    if unknown := sorted({each.kind for each in candidates if find_kind(each.kind) is None}):
        raise BadInput(f"unknown model kind {', '.join(map(repr, unknown))}; one of {', '.join(KINDS)}")
    names = [each.name for each in candidates]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"two of the models are called {twice[0]!r}; give one of them another name or option")
    return [
        replace(
            each,
            device=like.device,
            drift=like.drift,
            every=like.every if each.every == 1 else each.every,
            from_operator=like.from_operator,
            baseline=like.baseline,
        )
        for each in candidates
    ]


def admit_own_kinds(candidates: Sequence[CandidateSpec]) -> None:
    """Import the kinds that the operator brings. Raises BadInput."""
    try:
        admit_all((each.kind, each.options) for each in candidates)
    except ValueError as error:
        raise BadInput(str(error)) from None


def parse_candidate(text: str, options: Mapping[str, object]) -> CandidateSpec:
    """`classifier`, `classifier:head=rp_ridge,random_features=2048`, or the same after `package.module:Class`."""
    kind, _, rest = text.partition(":")
    attribute, _, own_rest = rest.partition(":")
    if kind not in KINDS and is_import_path(f"{kind}:{attribute}"):
        kind, rest = f"{kind}:{attribute}", own_rest
    own = parse_options(re.split(r",(?=\w+=)", rest) if rest else [], "--model")
    return CandidateSpec(kind, {**options, **own}, text)


def parse_options(pairs: Sequence[str], flag: str = "--option") -> dict[str, object]:
    """["scale=2", "input=text"] -> {"scale": 2, "input": "text"}; values are JSON where they can be."""
    options: JSONObject = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise BadInput(f"{flag} takes NAME=VALUE, not {pair!r}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def read_candidate_file(file: Path) -> list[CandidateSpec]:
    """Return the candidates of a file. Raises BadInput that says what is wrong with the file."""
    try:
        candidates = CandidateFile.model_validate(tomllib.loads(file.read_text()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{file} cannot be read: {error}") from None
    except ValidationError as error:
        raise BadInput(f"{file}: {describe(error)}") from None
    return [spec for candidate in candidates.candidate for spec in candidate.specs()]
