"""The shape of the code base: python -m tests.tools.shape [FOLDER ...]

For each checkout (default: this one) it prints, side by side: the lines of the core, the plugins, the laboratories and the
packages; what the composition roots import; modules with one importer; circles; files that a prediction, a feedback and a replay
enter, counted by tracing one of each (`--files` lists them); public docstrings; and how often `Any` is written.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOTS = (
    "api/app.py",
    "serving/building.py",
    "serving/runtime.py",
    "serving/model_runtime.py",
    "store/database/schema.py",
    "cli/app.py",
)
LARGEST_MERGED = 80  # lines of a module that belongs into its only importer
GENERATED = ("_pb2.py", "_pb2_grpc.py", ".gen.ts")
TRACED = """
import asyncio, contextvars, json, sys, tempfile, threading
from pathlib import Path
package, own, beside, learning, counting, idle = str(Path("online").resolve()), set(), set(), set(), [], set()
of_datum = contextvars.ContextVar("of_datum", default=False)
def trace(frame, event, argument):
    if counting and event == "call" and frame.f_code.co_filename.startswith(package) and frame.f_code.co_name != "<module>":
        is_learning = threading.current_thread().name == "learner"
        (own if of_datum.get() else learning if is_learning else beside).add(frame.f_code.co_filename)
threading.setprofile(trace)
sys.setprofile(trace)
import httpx
from online.api.app import create_app
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.opening import open_source
from online.learning.process import run_learner
from online.settings import ModelSettings, Settings
settings = Settings(state=Path(tempfile.mkdtemp()), models=[ModelSettings(name="chat", kind="ranker")])
app = create_app(settings, with_learner=False, with_store_process=False)
found, stop = {}, threading.Event()
def begin():
    for entered in (own, beside, learning):
        entered.clear()
    counting[:] = [True]
def end(name, *others):
    counting.clear()
    found[name] = sorted(path[len(package) + 1:] for path in own.union(*others))
async def main():
    runtime = app.state.runtime
    live = runtime.models["chat"].live
    learner = threading.Thread(target=run_learner, args=(runtime.workspace, settings.models[0], "cpu", stop), name="learner", daemon=True)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        learner.start()
        async def send(verb, body):
            answer = await client.post(f"/v1/models/chat:{verb}", json=body)
            assert answer.status_code in (200, 202), answer.text
            return answer.json()
        async def teach(words):
            item = {"input": words, "correction": "From nine."}
            return (await send("feedback", {"feedback": [item]}))["receipts"][0]["offset"]
        async def wait(offset):
            while live.current.learned_until < offset:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.2)
        await wait(await teach("When do you open?"))
        begin()
        await asyncio.sleep(1.5)
        counting.clear()
        idle.update(beside)  # what runs beside each request
        of_datum.set(True)
        predict = {"instances": ["Are you open?"]}
        await send("predict", predict)
        begin()
        await send("predict", predict)
        end("predict", beside - idle)
        begin()
        offset = await teach("Are you open?")
        end("feedback until stored")
        await wait(offset)
        begin()
        offset = await teach("At what time do you open?")
        await wait(offset)
        end("feedback until live", beside - idle, learning)
    stop.set()
    learner.join()
    rows = Path(tempfile.mkdtemp(), "rows.jsonl")
    rows.write_text(chr(10).join(json.dumps({"input": [n % 7, n], "label": "ab"[n % 2]}) for n in range(400)))
    source, candidate = open_source(str(rows)), CandidateSpec("classifier")
    begin()
    replay = Replay(source, candidate)
    replay.run()
    end("replay", beside)
asyncio.run(main())
print(json.dumps(found))
"""


@dataclass
class Shape:
    """What is counted of one checkout. rows: by the name of a figure. entered: the files that each traced way enters."""

    folder: Path
    rows: dict[str, str] = field(default_factory=dict)
    entered: dict[str, list[str]] = field(default_factory=dict)


def main() -> None:
    folders = [Path(argument) for argument in sys.argv[1:] if argument != "--files"] or [Path.cwd()]
    shapes = [measure(folder.resolve()) for folder in folders]
    names = list(dict.fromkeys(name for shape in shapes for name in shape.rows))
    width = max(map(len, names))
    print(" " * width, *(f"{shape.folder.name[:24]:>24}" for shape in shapes))
    for name in names:
        print(f"{name:{width}}", *(f"{shape.rows.get(name, '-'):>24}" for shape in shapes))
    if "--files" in sys.argv:
        for shape in shapes:
            for name, paths in shape.entered.items():
                print(f"\n{shape.folder.name}, {name}:", *paths, sep="\n  ")


def measure(folder: Path) -> Shape:
    shape = Shape(folder)
    modules = read_modules(folder / "online")
    imports = read_imports(folder / "online")
    count_lines(shape, modules)
    for root in ROOTS:
        if (path := folder / "online" / root) in modules:
            shape.rows[f"imports of {root}"] = str(len(imports[path]))
    importers = Counter(target for targets in imports.values() for target in targets)
    small = [path for path, (_, lines) in modules.items() if importers[path] == 1 and lines <= LARGEST_MERGED]
    shape.rows["modules with one importer"] = str(sum(importers[path] == 1 for path in modules))
    shape.rows[f"of them, of at most {LARGEST_MERGED} lines"] = str(len(small))
    shape.rows["largest imports of another module"] = largest_imports(folder, imports)
    shape.rows["import circles"] = str(len(find_circles(imports)))
    count_words(shape, modules)
    shape.entered = trace(folder)
    shape.rows.update({f"files entered: {name}": str(len(paths)) for name, paths in shape.entered.items()})
    return shape


@cache
def parse(path: Path) -> tuple[str, ast.Module]:
    """Return the text and the tree of a module, which many tests of the code base walk."""
    text = path.read_text()
    return text, ast.parse(text)


@cache
def read_modules(package: Path) -> dict[Path, tuple[ast.Module, int]]:
    """Each module's tree and its number of lines, without what is generated."""
    paths = (path for path in package.rglob("*.py") if "static" not in path.parts and not path.name.endswith(GENERATED))
    parsed = {path: parse(path) for path in sorted(paths)}
    return {path: (tree, text.count("\n")) for path, (text, tree) in parsed.items()}


@cache
def read_imports(package: Path) -> dict[Path, set[Path]]:
    """The modules of ours that each module imports, also inside functions and for type checkers."""
    modules = read_modules(package)
    return {path: list_imports(tree, package.parent, modules) for path, (tree, _) in modules.items()}


def count_lines(shape: Shape, modules: Mapping[Path, tuple[ast.Module, int]]) -> None:
    plugins = shape.folder / "online" / "plugins"
    for room, is_plugin in (("core", False), ("plugins", True)):
        lines = [count for path, (_, count) in modules.items() if (plugins in path.parents) == is_plugin]
        shape.rows[f"{room}, lines"], shape.rows[f"{room}, files"] = f"{sum(lines):,}", f"{len(lines):,}"
    shape.rows["online, lines"] = f"{sum(count for _, count in modules.values()):,}"
    for name in ("labs", "packages", "frontend/src", "frontend/widget", "frontend/packages", "tests"):
        shape.rows[f"{name}, lines"] = f"{count_tracked(shape.folder, name):,}"


def count_tracked(folder: Path, name: str) -> int:
    listed = subprocess.run(["git", "ls-files", name], cwd=folder, capture_output=True, text=True, check=True)
    kinds = (".py", ".ts", ".svelte", ".css", ".js")
    paths = [
        folder / each for each in listed.stdout.splitlines() if each.endswith(kinds) and not each.endswith(GENERATED)
    ]
    return sum(path.read_text().count("\n") for path in paths if path.is_file())


def list_imports(tree: ast.Module, parent: Path, modules: Mapping[Path, object]) -> set[Path]:
    """The modules of ours that a tree imports. parent: of the package."""
    found = set()
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "online":
                base = parent.joinpath(*name.split("."))
                # of a module, of a package, or of the module or the package that has the name
                places = (f"{base}.py", base / "__init__.py", f"{base.parent}.py", base.parent / "__init__.py")
                found.update([path for path in map(Path, map(str, places)) if exists(path)][:1])
    return found & modules.keys()


@cache
def exists(path: Path) -> bool:
    return path.exists()


def count_imports(package: Path) -> dict[Path, int]:
    """How many modules of ours each module imports."""
    return {path: len(targets) for path, targets in read_imports(package).items()}


def list_circles(package: Path) -> list[list[Path]]:
    return find_circles(read_imports(package))


def largest_imports(folder: Path, imports: Mapping[Path, set[Path]]) -> str:
    roots = {folder / "online" / root for root in ROOTS}
    count, path = max((len(targets), path) for path, targets in imports.items() if path not in roots)
    return f"{count} {path.name}"


def find_circles(imports: Mapping[Path, set[Path]]) -> list[list[Path]]:
    """The strongly connected components of more than one module (Tarjan)."""
    index: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    circles: list[list[Path]] = []

    def visit(path: Path) -> None:
        index[path] = low[path] = len(index)
        stack.append(path)
        for target in imports[path]:
            if target not in index:
                visit(target)
            if target in stack:
                low[path] = min(low[path], low[target])
        if low[path] == index[path]:
            component = [stack.pop()]
            while component[-1] != path:
                component.append(stack.pop())
            if len(component) > 1:
                circles.append(component)

    sys.setrecursionlimit(10_000)
    for path in imports:
        if path not in index:
            visit(path)
    return circles


def count_words(shape: Shape, modules: Mapping[Path, tuple[ast.Module, int]]) -> None:
    kinds: dict[str, int] = defaultdict(int)
    for tree, _ in modules.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
                kinds["public"] += 1
                kinds["documented"] += ast.get_docstring(node) is not None
            kinds["any"] += isinstance(node, ast.Name) and node.id == "Any"
    shape.rows["public docstrings"] = f"{100 * kinds['documented'] / max(1, kinds['public']):.0f} %"
    shape.rows["uses of Any"] = f"{kinds['any']:,}"


def trace(folder: Path) -> dict[str, list[str]]:
    """The files that a prediction of a text, a feedback and a replay enter; nothing where the checkout cannot be run."""
    with tempfile.TemporaryDirectory() as state:
        variables = {**os.environ, "PYTHONPATH": str(folder), "ONLINE_STATE": state, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", TRACED], cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
    if done.returncode:
        print(done.stderr.splitlines()[-1], file=sys.stderr)
        return {}
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
