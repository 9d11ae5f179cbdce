"""Measures the learner of a browser (frontend/packages/learner) in Node and in Chromium, beside Python's classifier.

    examples from a seed -> the package as it is published, in Node | in Chromium | Classifier in Python -> ms

learn: one more example. solve: one more example and the next answer, weights included: what a thumb waits for. answer: one
answer from solved weights. write, read: the file that holds all sums. Times are medians, on a machine that is shared.
"""

import gzip
import json
import shutil
import subprocess
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.chromium import launch_chromium
from benchmarks.report import command, create_parser, print_json, run_on_one_thread, table, verdict
from benchmarks.service import BenchmarkError
from online.models import Example
from online.models.classifier import Classifier
from online.models.encoders.hashed import find_place, hash_text
from online.models.encoders.text import TEXT_WIDTH
from online.models.updates import answer_by_updates
from online.plugins.export.learner_file import LearnerFacts, read_learner_file, write_learner_file

HERE = Path(__file__).parent
FRONTEND = HERE.parent / "frontend"
VITE = "node_modules/vite/bin/vite.js"
TARGET_MS, TARGET_KB = 100.0, 15.0
TRIALS = 15
TEXTS = ("Where is my order?", "please play some jazz in the kitchen", "How do I reset a password that I forgot?")
RUN_IN_NODE = (
    "import('./browser_learner.js').then(({ run }) => console.log(JSON.stringify(run("
    "JSON.parse(require('node:fs').readFileSync('cases.json', 'utf8'))))))"
)
RUN_IN_PAGE = "async () => (await import('/browser_learner.js')).run(await (await fetch('/cases.json')).json())"
Figures = dict[str, float]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def create_cases() -> dict[str, Any]:
    """The options of a learner and rows of a value and a class: digits, and texts of 150 classes."""
    random = np.random.default_rng(0)
    digits = random.integers(0, 17, (500, 64)).tolist()
    texts = random.integers(-60, 61, (1_500, TEXT_WIDTH)).tolist()
    return {
        "digits": {
            "options": {"input": "vector", "size": 64, "scale": 16},
            "rows": [[row, str(place % 10)] for place, row in enumerate(digits)],
        },
        "texts": {
            "options": {"input": "features", "size": TEXT_WIDTH},
            "rows": [[row, str(place % 150)] for place, row in enumerate(texts)],
        },
    }


def build(folder: Path, cases: dict[str, Any]) -> float:
    """Write the package, the script and the cases to a folder. Return the compressed size of the package's entry in kB."""
    node = shutil.which("node")
    if node is None or not (FRONTEND / VITE).exists():
        raise BenchmarkError("node and the packages of frontend/ are needed: make page")
    config = ["-c", "packages/learner/vite.config.ts", "--outDir", str(folder / "package"), "--logLevel", "error"]
    subprocess.run([node, VITE, "build", *config], cwd=FRONTEND, check=True)
    shutil.copy(HERE / "browser_learner.js", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "index.html").write_text("<!doctype html><title>learner</title>")
    (folder / "cases.json").write_text(json.dumps({"cases": cases, "texts": TEXTS}))
    code = b"".join((folder / "package" / name).read_bytes() for name in ("index.js", "learner.js", "errors.js"))
    return len(gzip.compress(code, 9)) / 1_000


def run_in_node(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        ["node", "--input-type=commonjs", "-e", RUN_IN_NODE], cwd=folder, check=True, capture_output=True
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def run_in_chromium(folder: Path) -> dict[str, Any]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with launch_chromium() as browser:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        figures: dict[str, Any] = page.evaluate(RUN_IN_PAGE)
    server.shutdown()
    server.server_close()
    return figures


def run_in_python(cases: dict[str, Any]) -> dict[str, Any]:
    find_place.cache_clear()
    hashed = measure(lambda place: hash_text(TEXTS[place % len(TEXTS)]), 100)
    return {**{name: measure_classifier(case) for name, case in cases.items()}, "hash": hashed}


def measure_classifier(case: dict[str, Any]) -> Figures:
    is_vector = case["options"]["input"] == "vector"
    options = case["options"] if is_vector else {}
    kind = np.float64 if is_vector else np.int8
    rows = [
        Example(place, "label", np.array(row, kind).tobytes(), label) for place, (row, label) in enumerate(case["rows"])
    ]
    model = Classifier({**options, "recent": 0})
    answer_by_updates(model)
    model.learn(rows)
    inputs = [rows[0].features]

    def solve(place: int) -> None:
        model.learn([rows[place]])
        model.predict(inputs)

    file = write_learner_file(model, LearnerFacts())
    return {
        "learn": measure(lambda place: model.learn([rows[place % len(rows)]]), 100),
        "solve": measure(solve),
        "answer": measure(lambda _: model.predict(inputs), 100),
        "write": measure(lambda _: write_learner_file(model, LearnerFacts())),
        "read": measure(lambda _: read_learner_file(file)),
        "file_kb": len(file) / 1_000,
    }


def measure(each: Callable[[int], object], times: int = 1) -> float:
    """The median of some trials in ms. times: how often in one trial, for what is short."""
    trials = []
    for _ in range(TRIALS):
        started = time.perf_counter()
        for place in range(times):
            each(place)
        trials.append(1_000 * (time.perf_counter() - started) / times)
    return float(np.median(trials))


def main(args: Namespace) -> int:
    run_on_one_thread()
    cases = create_cases()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        size_kb = build(folder, cases)
        results = {"Node": run_in_node(folder), "Chromium": run_in_chromium(folder), "Python": run_in_python(cases)}
    if args.json:
        print_json({"size_kb": size_kb, "results": results})
        return 0
    columns = ("learn", "solve", "answer", "write", "read", "file_kb")
    rows = [
        (f"{case}, {where}", *(float(figures[case][name]) for name in columns))
        for case in cases
        for where, figures in results.items()
    ]
    table("Learner: ms, and the file in kB", ("", *columns), rows)
    table("A text of 40 characters, hashed", ("", "ms"), [(where, each["hash"]) for where, each in results.items()])
    slowest = max(results[where][case]["solve"] for where in ("Node", "Chromium") for case in cases)
    print(
        f"From a thumb to the next answer: {slowest:.1f} ms at most (target {TARGET_MS:.0f}: {verdict(slowest, TARGET_MS)})"
    )
    print(f"The package: {size_kb:.2f} kB compressed (target {TARGET_KB:.0f}: {verdict(size_kb, TARGET_KB)})")
    return 0


if __name__ == "__main__":
    command(lambda: main(create_parser(__doc__ or "").parse_args()))
