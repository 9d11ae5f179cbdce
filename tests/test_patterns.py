"""Every regular expression of the package takes linear time, whatever text a caller sends."""

import ast
import dataclasses
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import online

ROOT = Path(online.__file__).parent
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer"}
CHARS = 8_000
MAX_S = 0.04  # a linear search of so many characters takes half a millisecond, a quadratic one at least 0.1 s
PARTS = (*" \n\ta1-./:{[\"'\\@e+", "user:", "{ ", "a ", "1 ", "\n\n", "/a", "://", "<metadata>")
ENDS = ("", "\x00", " x y z")


def imported_patterns() -> Iterator[re.Pattern[Any]]:
    """The patterns in the variables of every module, also inside tables and dataclasses."""
    for found in pkgutil.walk_packages(online.__path__, "online."):
        if not (found.name.endswith("__main__") or ".migrations." in found.name or ".protos." in found.name):
            try:
                module = importlib.import_module(found.name)
            except ImportError:  # needs an optional dependency
                continue
            yield from patterns_in([value for name, value in vars(module).items() if not name.startswith("__")])


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, Mapping):
        yield from patterns_in(list(value.values()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from patterns_in([getattr(value, field.name, None) for field in dataclasses.fields(value)])


def written_patterns() -> Iterator[re.Pattern[Any]]:
    """The patterns that calls such as re.sub(r"...", ...) have as text."""
    for path in ROOT.rglob("*.py"):
        if not {"migrations", "versions"} <= set(path.relative_to(ROOT).parts):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Call(ast.Attribute(ast.Name("re"), attr), [ast.Constant(str(pattern)), *_]) if (
                        attr in FUNCTIONS
                    ):
                        yield re.compile(pattern)


def all_patterns() -> dict[tuple[str | bytes, int], re.Pattern[Any]]:
    return {(each.pattern, each.flags): each for each in (*imported_patterns(), *written_patterns())}


def slowest_s(pattern: re.Pattern[Any], text: str) -> float:
    subject = text.encode() if isinstance(pattern.pattern, bytes) else text
    started = time.process_time()
    pattern.search(subject)
    pattern.fullmatch(subject)
    return time.process_time() - started


def slow_texts(pattern: re.Pattern[Any], others: tuple[str, ...] = ("",)) -> Iterator[str]:
    """Describe the texts that take the pattern too long, each time of three. others: follow each of the repeated parts."""
    written = pattern.pattern.decode() if isinstance(pattern.pattern, bytes) else pattern.pattern
    begins = ["", *re.findall(r"[\w:#<>-]{3,}", written)[:1]]
    for begin, part, other, end in product(begins, PARTS, others, ENDS):
        text = begin + (part + other) * (CHARS // len(part + other)) + end
        if all(slowest_s(pattern, text) > MAX_S for _ in range(3)):
            yield f"{written[:60]}: {begin!r} + {part + other!r} * n + {end!r}"


def test_a_quadratic_pattern_would_be_noticed() -> None:
    assert any(slow_texts(re.compile(r"^\s*user:", re.MULTILINE)))


@pytest.mark.parametrize("others", [("",), pytest.param(PARTS[:3], marks=pytest.mark.long)], ids=["one", "two"])
def test_a_pattern_takes_linear_time_for_any_text(others: tuple[str, ...]) -> None:
    patterns = all_patterns()
    assert len(patterns) >= 15
    assert any("human" in pattern for pattern, _ in patterns if isinstance(pattern, str))
    assert any("Available Tools" in pattern for pattern, _ in patterns if isinstance(pattern, str)), "inside a table"
    assert [slow for pattern in patterns.values() for slow in slow_texts(pattern, others)] == []
