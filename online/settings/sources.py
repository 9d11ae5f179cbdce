"""Merge the sources of settings, and remember where each value came from.

flag --port, --set NAME=VALUE   >   ONLINE_PORT   >   online.toml   >   default
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError, TomlConfigSettingsSource

from online.schemas.json_values import JSONObject
from online.settings.fields import Settings
from online.settings.messages import describe_settings_error, explain, help_of
from online.settings.models import ModelSettings, Placement
from online.settings.places import ListOptions, find_place

PREFIX = "ONLINE_"
DEFAULT_FILE = Path("online.toml")
MODEL_WORDS = frozenset({*ModelSettings.model_fields, *Placement.model_fields}) - {
    "name",
    "kind",
    "options",
    "versions",
}
MISSPELT = 0.75  # stricter than elsewhere: other programs have variables that begin with ONLINE_


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """The origin of a value. name: the flag, the variable or the file; empty for a default."""

    source: Literal["default", "file", "environment", "flag"]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.source} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings and the origin of each value."""

    settings: Settings
    origins: Mapping[str, SettingOrigin]


def load(
    config: Path | None,
    assignments: Sequence[str] = (),
    list_options: Callable[[], ListOptions] = dict,
    /,
    **flags: object,
) -> Settings:
    """Return the settings from the file (default: ./online.toml, if any), the environment and the flags.

    list_options: as in `load_with_origins`.

    Raises ValueError that names the setting, where it was given, and what is wrong with it.
    """
    return load_with_origins(config, assignments, list_options, **flags).settings


def load_with_origins(
    config: Path | None,
    assignments: Sequence[str] = (),
    list_options: Callable[[], ListOptions] = dict,
    /,
    **flags: object,
) -> LoadedSettings:
    """Return the settings, and where each came from.

    assignments: NAME=VALUE of `--set`. Flags that are None are not given. list_options: lists the options of models, so that
    an error can say of one in the wrong place where it belongs.
    """
    path = config or DEFAULT_FILE
    values: JSONObject = {}
    origins = dict.fromkeys(Settings.model_fields, SettingOrigin("default"))

    def add(table: Mapping[str, object], origin: Callable[[str], SettingOrigin]) -> None:
        values.update(table)
        origins.update({name: origin(name) for name in table})

    add(read_file(path, is_required=config is not None), lambda name: SettingOrigin("file", str(path)))
    add(read_environment(list_options), lambda name: SettingOrigin("environment", PREFIX + name.upper()))
    add(parse_assignments(assignments, list_options), lambda name: SettingOrigin("flag", f"--set {name}"))
    given = {name: value for name, value in flags.items() if value is not None}
    add(given, lambda name: SettingOrigin("flag", f"--{name.replace('_', '-')}"))
    try:
        return LoadedSettings(Settings.model_validate(values), origins)
    except ValidationError as error:
        place = lambda name: describe_place(name, origins, path)  # noqa: E731
        raise ValueError(describe_settings_error(error, place, list_options)) from None


def describe_place(name: str, origins: Mapping[str, SettingOrigin], path: Path) -> str:
    """Return where a setting was given. Without a name: the file, which alone can hold unknown names."""
    origin = origins.get(name)
    if not name or origin is None:
        return f"{path}: "
    return f"{path}: {name}" if origin.source == "file" else origin.name or name


def read_file(path: Path, is_required: bool) -> dict[str, object]:
    """Read a config file. Raises ValueError."""
    if not path.exists():
        if is_required:
            raise ValueError(f"there is no config file at {path}; name another with --config")
        return {}
    try:
        return dict(TomlConfigSettingsSource(Settings, path)())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def read_environment(list_options: Callable[[], ListOptions] = dict) -> dict[str, object]:
    """Return the ONLINE_* variables that are settings. Lists and tables are written as JSON."""
    refuse_misspelt_variables(os.environ)
    refuse_misplaced_variables(os.environ, list_options)
    refuse_service_link(os.environ)
    try:
        return EnvSettingsSource(Settings)()
    except SettingsError as error:
        found = re.search(r'field "(\w+)"', str(error))
        name = PREFIX + found[1].upper() if found else "the environment"
        raise ValueError(f"{name} is not valid JSON: {error.__cause__ or error}") from None


def refuse_misspelt_variables(environment: Mapping[str, str]) -> None:
    """Raise ValueError for a variable that resembles a setting.

    One that resembles none belongs to another program.
    """
    known = help_of(Settings.model_fields)
    for variable in environment:
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in known and get_close_matches(name, known, cutoff=MISSPELT):
            meant = get_close_matches(name, known, n=1, cutoff=MISSPELT)[0]
            raise ValueError(
                f"unknown setting {variable} in the environment; did you mean {PREFIX}{meant.upper()}: {known[meant]}"
            )


def refuse_misplaced_variables(environment: Mapping[str, str], list_options: Callable[[], ListOptions]) -> None:
    """Raise ValueError for a variable with the name of a model's setting or option, which the file alone can hold.

    Only names of two words or that no other program would use: ONLINE_NAME may belong to somebody else.
    """
    for variable in environment:
        name = variable.removeprefix(PREFIX).lower()
        is_ours = "_" in name or name in MODEL_WORDS
        if variable.startswith(PREFIX) and is_ours and name not in Settings.model_fields:
            elsewhere = find_place(name, list_options, "service", is_exact=True)
            if elsewhere:
                raise ValueError(f"{variable} in the environment: {elsewhere}")


def refuse_service_link(environment: Mapping[str, str]) -> None:
    """Raise ValueError for a variable that Kubernetes sets for a Service of this name."""
    if environment.get("ONLINE_PORT", "").startswith("tcp://"):
        raise ValueError(
            "ONLINE_PORT is the address that Kubernetes passes on for a Service named 'online': "
            "set enableServiceLinks: false in the pod, or name the Service otherwise"
        )


def parse_assignments(assignments: Sequence[str], list_options: Callable[[], ListOptions] = dict) -> dict[str, object]:
    """Return the values of `--set NAME=VALUE`. VALUE is written as in the file; a string needs no quotes."""
    values: JSONObject = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set {assignment}: write it as NAME=VALUE")
        if name not in Settings.model_fields:
            clause = explain(name, Settings.model_fields, "service", list_options)
            raise ValueError(f"--set: unknown setting {name!r}{clause}")
        values[name] = parse_value(text)
    return values


def parse_value(text: str) -> object:
    """Return the value of a variable: TOML, or the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
