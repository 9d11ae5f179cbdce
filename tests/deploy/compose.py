"""`deploy/compose.yaml` as Docker reads it: variables replaced, anchors resolved."""

import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIABLE = re.compile(r"\$\{(\w+)(?:(:-|:\?)((?:[^{}$]|\$\{\w+\})*))?\}")


def read_example() -> dict[str, str]:
    """Return the variables of `.env.example`."""
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def replace_variables(text: str, values: dict[str, str]) -> str:
    """Replace ${NAME}, ${NAME:-default} and ${NAME:?reason} as Docker does. Raises ValueError for a missing one."""

    def replace(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if value := values.get(name, ""):
            return value
        if kind == ":?":
            raise ValueError(f"{name}: {rest}")
        return replace_variables(rest or "", values)

    return VARIABLE.sub(replace, text)


def read_compose(values: dict[str, str]) -> dict[str, Any]:
    """Return the services and the rest, with `<<` resolved and `$$` as `$`."""
    text = "\n".join(line for line in (DEPLOY / "compose.yaml").read_text().splitlines() if not line.startswith("#"))
    composed: dict[str, Any] = yaml.safe_load(replace_variables(text, values).replace("$$", "$"))
    return composed
