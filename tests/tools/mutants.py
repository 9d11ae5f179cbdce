"""Whether the tests of the core notice a small defect in it: python -m tests.tools.mutants --count 60 --seed 0

A mutant is the source of one module with one small change. The same seed draws the same mutants. Each runs the tests near
its module, as `make test` does (without `long`), until one fails; if none does, it runs the wider ones.

    module --ast--> places that can change --draw--> mutant, written to a copy of this checkout
                                                       |
    parent (third-party modules are imported) --fork--> pytest -x near it, then wider --> killed, or survived

What is printed of a mutant: the seconds, the place, what was there, and what took its place.
"""

import argparse
import ast
import getpass
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

MAX_BYTES = 1 << 31  # that a mutant may write: a journal that rotates without an end fills a disk in seconds
NEVER_S = 900.0
FEEDBACK = (
    *(
        "tests/api/rest/test_predict.py",
        "tests/plugins/feedback_links/test_feedback_links.py",
        "tests/api/rest/test_examples.py",
    ),
    *(
        "tests/serving/feedback/test_outcomes.py",
        "tests/plugins/moderation/callers",
        "tests/plugins/moderation/test_inbox.py",
    ),
    *("tests/api/auth", "tests/plugins/usage", "tests/store/usage", "tests/api/rest/test_conversations.py"),
)
LEARNER = tuple(
    f"tests/learning/test_{name}.py"
    for name in ("learner", "training_state", "turns", "log_identity", "disk_writes", "gate", "contributions")
)
LEARNING = ("tests/learning", "tests/models/test_retirement.py", "tests/snapshots")
STORE = ("tests/store/test_store.py", "tests/store/test_journal_copy.py", "tests/store/test_log_digests.py")


@dataclass(frozen=True)
class Area:
    """Modules of which as many mutants are drawn as `share` says, with the tests near them and the wider ones."""

    modules: tuple[str, ...]
    share: int
    near: tuple[str, ...]
    wider: tuple[str, ...]


AREAS = (
    Area(
        ("online/journal.py",),
        6,
        ("tests/test_journal.py", "tests/store/test_journal_copy.py"),
        ("tests/serving/test_journal.py",),
    ),
    Area(
        ("online/snapshots/*.py",),
        12,
        ("tests/snapshots",),
        ("tests/learning/test_gate.py", "tests/learning/test_learner.py"),
    ),
    Area(
        ("online/learning/detectors.py", "online/learning/drift.py"),
        6,
        ("tests/learning/test_drift.py",),
        ("tests/learning/test_number_losses.py", "tests/scoring"),
    ),
    Area(("online/learning/gate.py", "online/learning/held_out.py"), 6, ("tests/learning/test_gate.py",), LEARNING),
    Area(
        ("online/learning/learner.py", "online/learning/publisher.py", "online/learning/training_state.py"),
        10,
        LEARNER,
        LEARNING,
    ),
    Area(("online/serving/feedback/*.py",), 14, FEEDBACK[:4], FEEDBACK[4:]),
    Area(("online/store/database/store.py", "online/store/events.py", "online/store/feedback.py"), 8, STORE, FEEDBACK),
)
THIRD_PARTY = (
    "pytest",
    "xdist",
    "torch",
    "numpy",
    "sqlalchemy",
    "fastapi.testclient",
    "safetensors.numpy",
    "river",
    "onnx",
    "sklearn",
)
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
QUIET = (
    "log_event(",
    "log.",
    "logger.",
    "LOG.",
    "logging.",
    "warnings.",
)  # calls without an effect that a test should see


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    module: str
    line: int
    before: str
    after: str
    source: str


def build_mutant(root: Path, module: str, place: int) -> Mutant:
    tree = ast.parse((root / module).read_text())
    node, change = next(islice(changes(tree), place, None))
    line, before = node.lineno, ast.unparse(node).split("\n")[0]
    after = change()
    return Mutant(module, line, before, after, ast.unparse(tree))


Change = Iterator[tuple[ast.stmt | ast.expr, "Replace"]]


@dataclass(frozen=True)
class Replace:
    """Changes the tree: sets a field of a node. Calling it returns what is there afterwards."""

    owner: ast.AST
    field: str
    value: object
    shown: ast.AST | None = None

    def __call__(self) -> str:
        setattr(self.owner, self.field, self.value)
        return ast.unparse(self.shown).split("\n")[0] if self.shown is not None else "nothing"


def changes(tree: ast.Module) -> Change:
    """Every change that is possible inside of functions, in the order of the source."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            for statement in body:
                yield from change_statement(statement, function)
            if is_procedure(function) and len(body) > 1:
                half = function.body[: len(function.body) - len(body) // 2]
                yield body[len(body) - len(body) // 2], Replace(function, "body", half)


def is_procedure(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return isinstance(function.returns, ast.Constant) and function.returns.value is None


def change_statement(statement: ast.stmt, owner: ast.AST) -> Change:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Raise | ast.Assert):
        return  # functions have their turn; messages are words
    text = ast.unparse(statement)
    if text.startswith(QUIET):
        return
    if isinstance(statement, ast.Expr | ast.AugAssign) and not isinstance(
        getattr(statement, "value", None), ast.Constant | ast.Yield
    ):
        yield statement, drop(statement, owner)
    for name, value in ast.iter_fields(statement):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.stmt):
                yield from change_statement(part, statement)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                for inner in part.body:
                    yield from change_statement(inner, part)
            elif isinstance(part, ast.expr) and name != "annotation":
                yield from change_expression(part, part)


def drop(statement: ast.stmt, owner: ast.AST) -> Replace:
    for name, value in ast.iter_fields(owner):
        if isinstance(value, list) and statement in value:
            return Replace(owner, name, [ast.Pass() if each is statement else each for each in value])
    raise AssertionError("a statement is in a list of its owner")


def change_expression(node: ast.expr, whole: ast.expr) -> Change:
    """whole: the expression that is shown."""
    for part in walk_code(node):
        if isinstance(part, ast.Compare) and type(part.ops[0]) in FLIPPED:
            yield whole, Replace(part, "ops", [FLIPPED[type(part.ops[0])](), *part.ops[1:]], whole)
        elif isinstance(part, ast.BoolOp):
            yield whole, Replace(part, "op", ast.Or() if isinstance(part.op, ast.And) else ast.And(), whole)
        elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add | ast.Sub) and not is_text(part):
            yield whole, Replace(part, "op", ast.Sub() if isinstance(part.op, ast.Add) else ast.Add(), whole)
        elif isinstance(part, ast.Constant) and isinstance(part.value, bool):
            yield whole, Replace(part, "value", not part.value, whole)
        elif isinstance(part, ast.Constant) and isinstance(part.value, int):
            yield whole, Replace(part, "value", part.value + 1, whole)
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            yield whole, Replace(part, "operand", ast.UnaryOp(ast.Not(), part.operand), whole)


def walk_code(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression, without those of texts."""
    yield node
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, ast.JoinedStr):
            yield from walk_code(part)


def is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


def draw(root: Path, area: Area, count: int, rng: random.Random) -> list[Mutant]:
    """Draw places of all modules of an area alike, at most one of a line."""
    drawn = dict[tuple[str, int], Mutant]()
    modules = sorted(str(path.relative_to(root)) for pattern in area.modules for path in root.glob(pattern))
    places = [(module, place) for module in modules for place in range(count_places(root, module))]
    for module, place in rng.sample(places, len(places)):
        mutant = build_mutant(root, module, place)
        drawn.setdefault((module, mutant.line), mutant)
        if len(drawn) == count:
            break
    return list(drawn.values())


def count_places(root: Path, module: str) -> int:
    return sum(1 for _ in changes(ast.parse((root / module).read_text())))


class Tests:
    """Runs tests in forks of this process. Each set of them runs once on the unchanged checkout, to know how long it takes."""

    def __init__(self, root: Path) -> None:
        self.root, self.output, self.expected_s = root, root / "output.txt", dict[tuple[str, ...], float]()

    def time(self, tests: tuple[str, ...]) -> None:
        started = time.monotonic()
        if tests not in self.expected_s and not self.run(tests, NEVER_S):
            raise SystemExit(
                f"{' '.join(tests)} fail without a mutant: {self.output.read_text(errors='replace')[-2000:]}"
            )
        self.expected_s.setdefault(tests, time.monotonic() - started)

    def pass_with(self, tests: tuple[str, ...]) -> bool:
        return self.run(tests, 4 * self.expected_s[tests] + 20)

    def run(self, tests: tuple[str, ...], limit_s: float) -> bool:
        """Returns whether all passed; a run without an end does not."""
        full_at, end = shutil.disk_usage(self.root).used + MAX_BYTES, time.monotonic() + limit_s
        if (child := os.fork()) == 0:
            self._become(tests)
        while not (found := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end or shutil.disk_usage(self.root).used > full_at:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.1)
        shutil.rmtree(self.root / f"pytest-of-{getpass.getuser()}", ignore_errors=True)
        return os.waitstatus_to_exitcode(found[1]) == 0

    def _become(self, tests: tuple[str, ...]) -> NoReturn:
        """Import this checkout's copy, not what has been imported here."""
        os.setsid()
        for limit, value in ((resource.RLIMIT_FSIZE, 1 << 28), (resource.RLIMIT_AS, 1 << 35)):
            resource.setrlimit(limit, (value, value))
        os.chdir(self.root)
        sys.path.insert(0, str(self.root))
        os.environ["PYTHONPATH"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self.root)
        sys.dont_write_bytecode = True
        for name in [each for each in sys.modules if each.split(".")[0] in ("tests", "online")]:
            del sys.modules[name]
        file = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        status = 3
        try:
            status = int(sys.modules["pytest"].main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *tests]))
        finally:
            os._exit(status)

    def first_failure(self) -> str:
        lines = self.output.read_text(errors="replace").split("\n")
        return next(
            (line.split(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))), "a run without an end"
        )


def copy_checkout(target: Path) -> None:
    here = Path(__file__).parents[2]
    skipped = shutil.ignore_patterns(".git", ".venv", "node_modules", ".mypy_cache", "site", "__pycache__")
    shutil.copytree(here, target, ignore=skipped, dirs_exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=62)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of a module's path")
    parser.add_argument("--near", action="store_true", help="run only the tests near each mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    arguments = parser.parse_args()
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    rng, root = random.Random(arguments.seed), Path(tempfile.mkdtemp(prefix="online-mutants-"))
    copy_checkout(root)
    shares = sum(area.share for area in AREAS)
    drawn = [
        (area, each) for area in AREAS for each in draw(root, area, round(arguments.count * area.share / shares), rng)
    ]
    chosen = [(area, each) for area, each in drawn if arguments.only in each.module]
    if not arguments.list:
        for name in THIRD_PARTY:
            importlib.import_module(name)
    tests, killed = Tests(root), 0
    for area, mutant in chosen:
        shown = f"{mutant.module}:{mutant.line}: {mutant.before}  ->  {mutant.after}"
        if arguments.list:
            print(shown)
            continue
        started, path = time.monotonic(), root / mutant.module
        original = path.read_text()
        by = "SURVIVED"
        for these in (area.near,) if arguments.near else (area.near, area.wider):
            path.write_text(original)
            tests.time(these)
            path.write_text(mutant.source)
            if not tests.pass_with(these):
                by, killed = f"killed by {tests.first_failure()}", killed + 1
                break
        path.write_text(original)
        print(f"{time.monotonic() - started:6.1f} s  {shown}\n           {by}", flush=True)
    if not arguments.list:
        print(f"{killed} of {len(chosen)} mutants were killed")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
