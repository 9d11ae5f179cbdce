"""Which package may import which: imports only go to lower layers, and light entry points stay light."""

import ast
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from online.models import Example, create
from tests.tools.shape import count_imports, list_circles, parse

PACKAGE = Path(__file__).parent.parent / "online"
LAYERS = [
    {"errors", "installed", ""},
    {"schemas"},  # above the errors: what a newer release has written is refused
    {"settings"},  # above the schemas, whose names of scopes are types of settings
    {"models", "telemetry", "io", "journal"},
    {"snapshots", "client"},
    {"store"},  # above the snapshots: what replicas agree on is rows about versions
    {"stream"},  # above the store, which has all the SQL: the SQL stream reads its event table
    {"state", "scoring"},
    {"learning"},
    {"evaluation"},
    {"serving"},
    {"api"},
    {"cli"},
    {"plugin"},  # the hooks; only plugins import it
    {"plugins"},  # the core imports none of them
    {"__main__"},
]
LAYER_OF = {package: number for number, layer in enumerate(LAYERS) for package in layer}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "static" not in path.parts)


def package_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (dotted name, line) for every import of this project in a module, at any level of nesting."""
    for node in ast.walk(parse(path)[1]):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            if (node.module or "").split(".")[0] == "online":
                for alias in node.names:
                    full = f"{node.module}.{alias.name}" if node.module == "online" else str(node.module)
                    yield full, node.lineno
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.split(".")[0] == "online")


def test_nothing_imports_a_laboratory() -> None:
    """A laboratory imports anything; it may break, and it may go."""
    others = [path for folder in ("online", "tests", "benchmarks") for path in (PACKAGE.parent / folder).rglob("*.py")]
    assert [str(path) for path in others if re.search(r"^\s*(from|import) labs\b", path.read_text(), re.M)] == []


def test_nothing_of_the_service_imports_a_package_of_its_own_distribution() -> None:
    names = "|".join(folder.name.replace("-", "_") for folder in (PACKAGE.parent / "packages").iterdir())
    importing = re.compile(rf"^\s*(from|import) ({names})\b", re.M)
    assert [str(path) for path in modules() if importing.search(path.read_text())] == []


MOST_IMPORTS, MOST_IMPORTS_OF_A_ROOT = 15, 25  # of our modules
ROOTS = {
    "api/app.py",
    "api/core_routers.py",
    "cli/app.py",
    "plugin.py",  # all hooks on one page, each with the types that it takes and returns
    "serving/building.py",
    "serving/model_building.py",
    "serving/runtime.py",
    "store/database/schema.py",
}
STILL_MORE = {  # modules that import more than they may, and how many: these numbers only fall
    "api/rest/conversations.py": 16,
    "api/rest/replies.py": 19,
    "api/rest/versions.py": 19,
    "cli/operating/load.py": 22,
    "cli/replay.py": 25,
    "evaluation/replay/replay.py": 24,
    "learning/learner.py": 25,
    "models/classifier.py": 17,
    "plugins/encoder_tuning/adoption.py": 22,
    "plugins/export/command.py": 16,
    "plugins/jobs/batch_queue.py": 21,
    "plugins/moderation/inbox/deciding.py": 22,
    "plugins/moderation/inbox/routes.py": 19,
    "plugins/monitoring/routes.py": 16,
    "plugins/off_policy/logged_decisions.py": 19,
    "plugins/open_inference/rest.py": 16,
    "plugins/reports/plugin.py": 16,
    "plugins/reports/report_page.py": 17,
    "plugins/reports/uploaded_log.py": 19,
    "plugins/tensorflow/rest.py": 19,
    "plugins/tensorflow/rpc.py": 18,
    "plugins/towers/tower.py": 17,
    "plugins/workers/team.py": 17,
    "serving/feedback/feedback.py": 20,
    "serving/feedback/recording.py": 21,
    "serving/model_runtime.py": 21,
    "serving/predictor.py": 19,
    "state/workspace.py": 23,
}


def test_no_module_imports_too_many_of_ours() -> None:
    counts = {str(path.relative_to(PACKAGE)): count for path, count in count_imports(PACKAGE).items()}
    most = {path: MOST_IMPORTS_OF_A_ROOT if path in ROOTS else MOST_IMPORTS for path in counts} | STILL_MORE
    assert {path: count for path, count in counts.items() if count > most[path]} == {}
    assert {path for path, most in STILL_MORE.items() if counts[path] < most} == set(), "lower these numbers"


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert list_circles(PACKAGE) == []


def test_every_package_has_a_layer() -> None:
    assert {package_of(path) for path in modules()} == set(LAYER_OF)


def test_imports_only_go_to_lower_layers() -> None:
    wrong = []
    for path in modules():
        package = package_of(path)
        for name, line in imports_of(path):
            target = [*name.split("."), ""][1]
            target = "" if target == "__version__" else target
            if target != package and LAYER_OF[target] >= LAYER_OF[package]:
                wrong.append(f"{path}:{line} ({package}) imports {name}")
    assert wrong == []


SERVING_LAYERS = [
    {"devices"},
    {"parts", "versions", "disk_space", "rates"},
    {"version_loader"},
    {"live"},
    {"batcher", "transactions", "event_feed", "answers", "encoder_sources", "turns"},
    {"prediction_rows", "monitoring", "processes"},
    {"predictor", "stream_relay", "readiness"},
    {"feedback"},
    {"repertoire", "rating_counter", "event_retention"},
    {"retention"},
    {"model_runtime"},
    {"replica_follower"},
    {"erasure", "feed_sharing"},
    {"runtime"},
    {"model_building"},
    {"building"},
]
SERVING_LAYER_OF = {part: number for number, layer in enumerate(SERVING_LAYERS) for part in layer}
SERVING = PACKAGE / "serving"


def serving_part_of(path: Path) -> str:
    return path.relative_to(SERVING).parts[0].removesuffix(".py")


def serving_modules() -> list[Path]:
    return [path for path in sorted(SERVING.rglob("*.py")) if path != SERVING / "__init__.py"]


def test_every_part_of_serving_has_a_layer() -> None:
    assert {serving_part_of(path) for path in serving_modules()} == set(SERVING_LAYER_OF)


def test_imports_within_serving_only_go_to_lower_layers() -> None:
    wrong = []
    for path in serving_modules():
        part = serving_part_of(path)
        for name, line in imports_of(path):
            target = name.split(".")[2] if name.startswith("online.serving.") else part
            if target != part and SERVING_LAYER_OF[target] >= SERVING_LAYER_OF[part]:
                wrong.append(f"{path}:{line} ({part}) imports {name}")
    assert wrong == []


def run_in_a_new_process(code: str, stdin: bytes = b"") -> str:
    """Run the code with `stdin` as its input; return its output."""
    process = subprocess.run([sys.executable, "-c", code], input=stdin, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout.decode()


def test_models_load_no_web_packages() -> None:
    code = "import sys, online.models.statistics.exact, online.models.classifier, online.models.ranker.ranker; print(' '.join(sys.modules))"
    loaded = set(run_in_a_new_process(code).split())
    assert not loaded & {"fastapi", "pydantic", "sqlalchemy", "sqlmodel", "redis", "httpx", "uvicorn", "river"}


VECTOR = np.array([1.0, 2.0]).tobytes()
EXACT_HEADS: list[tuple[str, dict[str, object], bytes]] = [
    ("classifier", {"input": "vector", "size": 2, "scale": 4.0}, VECTOR),
    ("classifier", {"input": "table"}, b'{"a": 1.0}'),
    ("classifier", {"input": "vector", "size": 2, "head": "best"}, VECTOR),
    ("regressor", {"input": "vector", "size": 2}, VECTOR),
    ("ranker", {}, np.ones(384, np.int8).tobytes()),
]
SERVE = """
import pickle, sys
import online.api.http.server
from online.models import StatePart, create
for kind, options, features, parts in pickle.loads(sys.stdin.buffer.read()):
    model = create(kind, options)
    assert model.predict([features])[0].choice is None
    model.restore({name: StatePart(tensors, serving=True) for name, tensors in parts.items()})
    assert model.predict([features, features])[0].choice is not None, (kind, options)
assert "torch" not in sys.modules
"""


def learn_serving_parts(kind: str, options: dict[str, object], features: bytes) -> dict[str, dict[str, Any]]:
    """Learn 20 examples; return the parts of the state that a server loads, by name."""
    model = create(kind, options)
    if kind == "ranker":
        model.learn([Example(1, "reply", features, "a", "A"), Example(2, "reply", features, "b", "B")])
    labels = {"regressor": [str(n) for n in range(20)], "ranker": ["a"] * 20}.get(kind, ["a", "b"] * 10)
    model.learn([Example(n, "label", features, label) for n, label in enumerate(labels, 10)])
    return {name: dict(part.tensors) for name, part in model.state(serving_only=True).items() if part.serving}


def test_a_server_with_exact_heads_does_not_load_torch() -> None:
    """Loading torch takes about as long as loading everything else together."""
    learned = [(*head, learn_serving_parts(*head)) for head in EXACT_HEADS]
    run_in_a_new_process(SERVE, pickle.dumps(learned))


def test_the_client_is_light() -> None:
    loaded = set(run_in_a_new_process("import sys, online.client; print(' '.join(sys.modules))").split())
    assert not loaded & {"torch", "numpy", "fastapi", "sqlalchemy"}


def test_the_command_line_starts_without_torch() -> None:
    loaded = set(run_in_a_new_process("import sys, online.cli.app; print(' '.join(sys.modules))").split())
    assert not loaded & {"torch", "fastapi", "sqlalchemy", "river"}


REPLAY = """
import os, pathlib, sys, tempfile
os.environ["ONLINE_OF_ANOTHER_PROGRAM"] = "1"  # no setting, so it is looked for among the options of all kinds
from online.cli.app import main
path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
path.write_text("a,b,label\\n" + "".join(f"{n},{n % 3},{n % 2}\\n" for n in range(20)))
sys.argv = ["online", "replay", str(path), "--label", "label", "--model", "classifier", "--json"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + " ".join(sys.modules))
"""


def test_a_replay_loads_neither_a_database_nor_torch() -> None:
    """They would take three times as long to load as the replay of a small file takes."""
    loaded = set(run_in_a_new_process(REPLAY).splitlines()[-1].split())
    assert not loaded & {"torch", "fastapi", "sqlalchemy", "sqlmodel", "onnx", "river", "sklearn"}
