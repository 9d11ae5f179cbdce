"""The language of the code: docstrings open as the documentation of a good library does, and some words are not used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tools.shape import parse

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "online", *ROOT.glob("packages/*"))
QUESTION = re.compile(r"(What|How|Which|Who|Whose|Whether|Where|When|Why)\b")
NOUN_PHRASE = re.compile(r"(The|A|An|All|Each|Every|One|None|Its|Those|Of|Raises)\b")
BANNED = re.compile(
    r"\b(whoever|anew|nobody's|borne|everybody|told)\b|\bat hand\b|\bfor ever\b|\bin vain\b|\bfor want of\b|\bset apart\b"
)
KEYS = re.compile(r"[\"']told[\"']|\btold=")  # keys of stored states and of former logs
Function = ast.FunctionDef | ast.AsyncFunctionDef


SENTENCES = {"online/models/checks.py": "each check says in a sentence what it requires of a model"}


def list_modules() -> Iterator[tuple[str, str, ast.Module]]:
    """The name, text and tree of each module; generated code and migrations are left out."""
    for path in sorted(path for folder in SOURCES for path in folder.rglob("*.py")):
        if not path.stem.endswith(("_pb2", "_pb2_grpc")) and "migrations" not in path.parts:
            yield str(path.relative_to(ROOT)), *parse(path)


def is_route_or_property(function: Function) -> bool:
    """Return whether noun phrases describe it: routes in the API document, properties in code."""
    decorators = [ast.unparse(each) for each in function.decorator_list]
    return any("property" in each or each.endswith(".setter") or each.startswith("router.") for each in decorators)


def test_modules_and_classes_do_not_open_with_a_question_word() -> None:
    violations = []
    for name, _, tree in list_modules():
        documented = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)]
        violations += [
            f"{name}: {text}" for node in documented if QUESTION.match(text := ast.get_docstring(node) or "")
        ]
    assert violations == []


def test_functions_open_with_return_or_an_imperative() -> None:
    violations = []
    for name, _, tree in list_modules():
        if name in SENTENCES:
            continue
        functions = [node for node in ast.walk(tree) if isinstance(node, Function) and not is_route_or_property(node)]
        for function in functions:
            text = ast.get_docstring(function) or ""
            if QUESTION.match(text) or NOUN_PHRASE.match(text):
                violations.append(f"{name}: {function.name}: {text.splitlines()[0]}")
    assert violations == []


def test_no_word_of_our_own_dialect_is_used() -> None:
    lines = (
        (name, number, line) for name, text, _ in list_modules() for number, line in enumerate(text.splitlines(), 1)
    )
    assert [f"{name}:{number}: {line}" for name, number, line in lines if BANNED.search(KEYS.sub("", line))] == []
