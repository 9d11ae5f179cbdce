"""Who may import whom: imports go down only, and a light door stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "online"
FLOORS = [
    {"errors", "schemas", "settings", ""},
    {"models", "observability", "doorbell", "prequential", "files", "wal"},
    {"stream", "snapshots", "client", "outside", "quarantine", "shadow", "candidates"},
    {"store"},
    {"workspace", "conversations", "guard"},
    {"learning"},
    {"serving", "evaluation"},
    {"cli"},
    {"__main__"},
]
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "static" not in path.parts)


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of everything of ours that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            if (node.module or "").split(".")[0] == "online":
                for alias in node.names:
                    full = f"{node.module}.{alias.name}" if node.module == "online" else str(node.module)
                    yield full, node.lineno
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.split(".")[0] == "online")


def test_every_room_has_its_floor() -> None:
    assert {room_of(path) for path in modules()} == set(FLOOR_OF)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    room = room_of(path)
    for name, line in imports_of(path):
        target = [*name.split("."), ""][1]
        target = "" if target == "__version__" else target
        if target != room:
            assert FLOOR_OF[target] < FLOOR_OF[room], f"{path.name}:{line} ({room}) imports {name}"


def import_in_a_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_models_need_no_web_packages() -> None:
    code = (
        "import sys, online.models.exact, online.models.classifier, online.models.ranker; print(' '.join(sys.modules))"
    )
    loaded = set(import_in_a_new_process(code).split())
    assert not loaded & {"fastapi", "pydantic", "sqlalchemy", "sqlmodel", "redis", "httpx", "uvicorn", "river"}


LABELS = {"regressor": "str(n)", "ranker": "'a'"}


@pytest.mark.parametrize(
    ("kind", "options", "row"),
    [
        ("classifier", {"input": "vector", "size": 2, "scale": 4.0}, "[1.0, 2.0]"),
        ("classifier", {"input": "table"}, '{"a": 1.0}'),
        ("classifier", {"input": "vector", "size": 2, "head": "best"}, "[1.0, 2.0]"),
        ("regressor", {"input": "vector", "size": 2}, "[1.0, 2.0]"),
        ("ranker", {}, "[1.0] * 384"),
    ],
)
def test_a_server_of_exact_heads_needs_no_torch(
    kind: str, options: dict[str, object], row: str, tmp_path: Path
) -> None:
    """It takes about as long to load as all else together."""
    made = f"""
import json, pickle, sys
import numpy as np
from online.models import Example, create
row = {row}
data = json.dumps(row).encode() if isinstance(row, dict) else np.array(row, {"np.int8" if kind == "ranker" else "np.float64"}).tobytes()
"""
    learned = f"""{made}
model = create({kind!r}, {options!r})
if {kind!r} == "ranker":
    model.learn([Example(1, "reply", data, "a", "A"), Example(2, "reply", data, "b", "B")])
model.learn([Example(n, "label", data, {LABELS.get(kind, "'ab'[n % 2]")}) for n in range(10, 30)])
parts = {{name: part for name, part in model.state(serving_only=True).items() if part.serving}}
pickle.dump({{name: dict(part.tensors) for name, part in parts.items()}}, open({str(tmp_path / "parts")!r}, "wb"))
"""
    import_in_a_new_process(learned)
    served = f"""{made}
import online.serving.server
from online.models import Part
model = create({kind!r}, {options!r})
assert model.predict([data])[0].choice is None
tensors = pickle.load(open({str(tmp_path / "parts")!r}, "rb"))
model.restore({{name: Part(of, serving=True) for name, of in tensors.items()}})
print(model.predict([data, data])[0].choice)
assert "torch" not in sys.modules
"""
    assert import_in_a_new_process(served).strip() not in ("", "None")


def test_the_client_is_light() -> None:
    loaded = set(import_in_a_new_process("import sys, online.client; print(' '.join(sys.modules))").split())
    assert not loaded & {"torch", "numpy", "fastapi", "sqlalchemy"}


def test_the_command_line_starts_without_torch() -> None:
    loaded = set(import_in_a_new_process("import sys, online.cli; print(' '.join(sys.modules))").split())
    assert not loaded & {"torch", "fastapi", "sqlalchemy", "river"}
