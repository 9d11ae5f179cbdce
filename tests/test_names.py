"""Class names are nouns of the field, and each public name means one thing in online/ and packages/."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.tools.shape import parse

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "online", *ROOT.glob("packages/*"))
RIDDLES = frozenset(
    [
        "Alone",
        "Asked",
        "Assigned",
        "Begin",
        "Bounded",
        "Busy",
        "Copied",
        "Crowd",
        "Decided",
        "Demand",
        "Equipment",
        "Erased",
        "Exported",
        "Facts",
        "Ground",
        "Held",
        "Learning",
        "LeastDoesNotFit",
        "Lesson",
        "Made",
        "Measured",
        "Naive",
        "OneFirst",
        "People",
        "Pulled",
        "Pupil",
        "Reach",
        "Removed",
        "Said",
        "Saving",
        "Sent",
        "Served",
        "Solved",
        "Space",
        "Standing",
        "Stretch",
        "Surfaces",
        "Together",
        "Told",
        "Undoing",
        "Undone",
        "Used",
        "Which",
    ]
)
PARTICIPLES = ("ed", "ing")
NOUNS = frozenset(
    {"Branding", "Finding", "Overloaded", "Rating", "Reencoding", "Spelling", "Unauthorized", "Unmasking"}
)
REPEATED = {
    "ErasureStatus": "the client's type of the JSON of this schema",
    "RankedReply": "the client's type of the JSON of this schema",
    "Receipt": "the client's type of the JSON of this schema",
    "ReplyRef": "the client's type of the JSON of this schema",
}


def list_classes() -> Iterator[tuple[str, str]]:
    """The name of each class with its module; generated code is left out."""
    for path in sorted(path for folder in SOURCES for path in folder.rglob("*.py")):
        if not path.stem.endswith(("_pb2", "_pb2_grpc")):
            for node in ast.walk(parse(path)[1]):
                if isinstance(node, ast.ClassDef):
                    yield node.name.lstrip("_"), f"{'_' * node.name.startswith('_')}{path.relative_to(ROOT)}"


def is_bare_participle(name: str) -> bool:
    has_one_word = sum(letter.isupper() for letter in name) == 1
    return has_one_word and name.endswith(PARTICIPLES) and name not in NOUNS


def test_no_class_is_named_by_a_participle_or_a_riddle() -> None:
    violations = [f"{module}: {name}" for name, module in list_classes() if name in RIDDLES or is_bare_participle(name)]
    assert violations == []


def test_each_public_class_name_has_one_meaning() -> None:
    modules = defaultdict(list)
    for name, module in list_classes():
        if not module.startswith("_"):
            modules[name].append(module)
    repeated = {name: places for name, places in modules.items() if len(places) > 1}
    assert {name: places for name, places in repeated.items() if name not in REPEATED} == {}
    assert REPEATED.keys() - repeated.keys() == set(), "these names are unique now"
