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
CHARS = 20_000
MAX_S = 0.25  # a linear search of so many characters takes about a millisecond, a quadratic one most of a second
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


PATTERNS = {(each.pattern, each.flags): each for each in (*imported_patterns(), *written_patterns())}


def slowest_s(pattern: re.Pattern[Any], text: str) -> float:
    subject = text.encode() if isinstance(pattern.pattern, bytes) else text
    started = time.process_time()
    pattern.search(subject)
    pattern.fullmatch(subject)
    return time.process_time() - started


def test_the_patterns_of_the_package_are_found() -> None:
    assert len(PATTERNS) >= 15
    assert any("human" in pattern for pattern, _ in PATTERNS)
    assert any("Available Tools" in pattern for pattern, _ in PATTERNS), "inside the table of tasks"


def test_a_quadratic_pattern_would_be_noticed() -> None:
    assert slowest_s(re.compile(r"^\s*user:", re.MULTILINE), "\n" * CHARS) > MAX_S


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=lambda pattern: str(pattern.pattern)[:40])
def test_a_pattern_takes_linear_time_for_any_text(pattern: re.Pattern[Any]) -> None:
    written = pattern.pattern.decode() if isinstance(pattern.pattern, bytes) else pattern.pattern
    begins = ["", *re.findall(r"[\w:#<>-]{3,}", written)[:1]]
    for begin, part, other, end in product(begins, PARTS, ("", *PARTS[:3]), ENDS):
        text = begin + (part + other) * (CHARS // len(part + other)) + end
        taken_s = slowest_s(pattern, text)
        assert taken_s < MAX_S, f"{taken_s:.2f} s for {begin!r} + {part + other!r} * n + {end!r}"
