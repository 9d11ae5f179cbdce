"""Measures the rate and memory of replays, and their results on Elec2.

    python -m benchmarks.replay [--parts rate,peer,start,memory,elec2] [--events 100000] [--lines 10000000] [--json]

rate: events per second of core time, from the file to the figures, each in a separate process whose
start counts. The classifier reads JSONL of 64 numbers, the ranker a log that contains features,
river's model JSONL of objects. Models learn 256 events at a time; the classifier also one by one.
peer: several kinds beside river's progressive_val_score, over the same objects. start: seconds until `online --help`
and a replay of 1,000 rows have ended. memory: the peak of a process that replays --lines lines of JSONL. elec2: electricity prices of New
South Wales (45,312 rows, in ONLINE_SHARED_DATA), our best model and river's, with labels at once and
a day (48 rows) late.
"""

import base64
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import command, create_parser, print_json, say, table, verdict
from benchmarks.service import BenchmarkError
from online.evaluation.sources.log_format import build_header
from online.models import create
from online.settings import ModelSettings

REPLIES, WIDTH = 100, 384
IN_BATCHES = ("--every", "256")
PARTS = ("rate", "peer", "start", "memory", "elec2")
RATE_TARGET, MEMORY_TARGET = 30_000.0, 1_000.0


def write_vectors(path: Path, count: int, numbers: int = 64) -> None:
    """Write labelled points around ten centres."""
    draw = np.random.default_rng(0)
    centres = draw.normal(0, 1, (10, numbers))
    with open(path, "w") as file:
        for _ in range(count):
            label = int(draw.integers(10))
            place = (centres[label] + draw.normal(0, 1.5, numbers)).round(3)
            file.write(json.dumps({"input": place.tolist(), "label": label}) + "\n")


def write_tables(path: Path, count: int) -> None:
    draw = np.random.default_rng(0)
    with open(path, "w") as file:
        for _ in range(count):
            x = draw.random(8).round(3)
            row = {f"x{place}": value for place, value in enumerate(x.tolist())}
            file.write(json.dumps({"input": row, "label": int(x[0] + x[1] > 1)}) + "\n")


def write_ranker_log(path: Path, count: int) -> None:
    """Write a log as a service exports it: replies, then ten answers and their ten thumbs in turn."""
    spec = ModelSettings(name="chat", kind="ranker", options={})
    with open(path, "w") as file:
        event_count = REPLIES + count
        file.write(json.dumps(build_header(spec, {}, create("ranker", {}).feature_epoch(), count, event_count)) + "\n")
        for line in ranker_lines(count):
            file.write(json.dumps(line) + "\n")


def ranker_lines(count: int) -> Iterator[dict[str, Any]]:
    draw = np.random.default_rng(0)
    replies = draw.integers(-60, 60, (REPLIES, WIDTH), dtype=np.int8)
    blank = {"user": None, "created_at": None}
    for place, row in enumerate(replies):
        event = {
            "id": f"added:{place}#reply",
            "kind": "reply",
            "label": f"r{place}",
            "text": f"reply {place}",
            "reward": 1.0,
        }
        rest = {"choice": None, "target": None, "input": None, "features": base64.b64encode(row.tobytes()).decode()}
        yield {"event": {"offset": place + 1, **event, **rest, **blank}}
    for start in range(0, count, 10):
        batch = range(start, min(start + 10, count))
        chosen = draw.integers(REPLIES, size=len(batch))
        for turn, reply in zip(batch, chosen.tolist(), strict=True):
            question = np.clip(replies[reply] + draw.normal(0, 20, WIDTH), -127, 127).astype(np.int8)
            answered = {
                "version": 1 + start // 10,
                "learned_until": REPLIES + start,
                "choice": f"r{reply}",
                "propensity": 1.0,
            }
            features = base64.b64encode(question.tobytes()).decode()
            line: dict[str, Any] = {
                "id": str(turn),
                "input": None,
                "features": features,
                "feedback_count": 1,
                "candidates": [],
            }
            yield {"prediction": {**line, **answered, **blank}}
        for turn, reply in zip(batch, chosen.tolist(), strict=True):
            event = {"id": f"f{turn}", "kind": "reward", "label": f"r{reply}", "text": "", "reward": 1.0}
            rest = {"choice": f"r{reply}", "target": None, "prediction_id": str(turn)}
            yield {"event": {"offset": REPLIES + turn + 1, **event, **rest, **blank}}


def run_replay(*arguments: str) -> tuple[dict[str, Any], float, float]:
    """Run `online replay` in a process. Return the result of the first model, seconds of core time, and peak MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    program = (
        "import resource, sys; from online.cli.app import main\ntry: main()\nfinally: "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    process = [sys.executable, "-c", program, "replay", *arguments, "--json"]
    completed = subprocess.run(process, capture_output=True, text=True, check=False, env=environment)
    if completed.returncode:
        raise BenchmarkError(f"online replay ended with {completed.returncode}: {completed.stderr[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(completed.stdout)["results"][0], seconds, int(completed.stderr.split()[-1]) / 1_000


def rates(folder: Path, events: int) -> list[dict[str, Any]]:
    cases: Sequence[tuple[str, Callable[[Path, int], None], int, tuple[str, ...]]] = (
        (
            "classifier, 64 numbers",
            write_vectors,
            events,
            ("--model", "classifier", "--option", "scale=8.0", *IN_BATCHES),
        ),
        ("the same, at every event", write_vectors, events // 20, ("--model", "classifier", "--option", "scale=8.0")),
        ("ranker, its features in the log", write_ranker_log, events // 5, ("--model", "ranker")),
        ("river's logistic regression", write_tables, events // 5, ("--model", "river", *IN_BATCHES)),
    )
    rows = []
    for place, (name, make, count, arguments) in enumerate(cases):
        say(f"{name}: {count:,} events ...")
        path = folder / f"rate-{place}.jsonl"
        make(path, count)
        result, seconds, peak = run_replay(str(path), *arguments)
        accuracy = 100 * (result["figures"]["accuracy"] or 0)
        rows.append(
            {
                "what": name,
                "events": result["events"],
                "per core-second": result["events"] / seconds,
                "MB": peak,
                "accuracy %": accuracy,
            }
        )
    return rows


RIVER = """
import json, sys
from river import compose, evaluate, linear_model, metrics, preprocessing
def rows():
    with open(sys.argv[1]) as file:
        for line in map(json.loads, file):
            yield line["input"], bool(line["label"])
model = compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
print(evaluate.progressive_val_score(rows(), model, metrics.Accuracy()).get())
"""


def measure_core_seconds(*command: str) -> tuple[str, float]:
    """Run a command on one thread; return its output and its seconds of core time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    completed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return completed.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peers(folder: Path, events: int) -> list[dict[str, Any]]:
    path, rows = folder / "peer.jsonl", list[dict[str, Any]]()
    write_tables(path, events)
    output, seconds = measure_core_seconds(sys.executable, "-c", RIVER, str(path))
    rows.append({"what": "river", "every": 1, "per core-second": events / seconds, "accuracy %": 100 * float(output)})
    for kind in ("logistic", "knn", "classifier", "river"):
        for every in (256, 1):
            say(f"{kind}, --every {every}: {events:,} events ...")
            result, seconds, _ = run_replay(str(path), "--model", kind, "--every", str(every))
            accuracy = 100 * (result["figures"]["accuracy"] or 0)
            rate = {"per core-second": events / seconds, "of the model": result["examples_per_second"]}
            rows.append({"what": f"our {kind}", "every": every, **rate, "accuracy %": accuracy})
    return rows


def starts(folder: Path) -> list[dict[str, Any]]:
    """Measure each command five times; return the medians."""
    path = folder / "start.jsonl"
    write_tables(path, 1_000)
    replay = ("replay", str(path), "--model", "logistic", "--every", "256")
    rows = list[dict[str, Any]]()
    for arguments in (("--help",), replay):
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            _, core_seconds = measure_core_seconds(sys.executable, "-m", "online", *arguments)
            seconds.append((time.perf_counter() - began, core_seconds))
        wall, core = (statistics.median(column) for column in zip(*seconds, strict=True))
        rows.append({"command": f"online {arguments[0]}", "seconds": wall, "core-seconds": core})
    return rows


def memory(folder: Path, lines: int) -> list[dict[str, Any]]:
    rows = []
    for count in (lines // 100, lines):
        say(f"memory: {count:,} lines ...")
        path = folder / "memory.jsonl"
        write_vectors(path, count, numbers=4)
        result, seconds, peak = run_replay(str(path), "--model", "classifier", "--option", "scale=8.0", *IN_BATCHES)
        rows.append({"lines": count, "peak, MB": peak, "lines per core-second": result["events"] / seconds})
        path.unlink()
    return rows


def elec2(folder: Path) -> list[dict[str, Any]]:
    """Replay Elec2, and write the reports elec2-0.html and elec2-48.html to the current folder."""
    archive = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "elec2" / "electricity.csv.gz"
    source = archive if archive.exists() else next(iter(archive.parent.glob("*.csv.gz")), None)
    if source is None:
        raise BenchmarkError(f"{archive} does not exist; set ONLINE_SHARED_DATA to the folder that contains elec2")
    path = folder / "elec2.csv"
    path.write_bytes(gzip.decompress(source.read_bytes()))
    rows = []
    for delay in ("0", "48"):
        say(f"elec2, labels {delay} rows late ...")
        models = [
            flag
            for model in ("best_of", "logistic:drift=0.001,prior=10", "river:estimator=arf", "river:estimator=logistic")
            for flag in ("--model", model)
        ]
        report = ("--report", f"elec2-{delay}.html")
        completed = subprocess.run(
            [
                sys.executable,
                "-m",
                "online",
                "replay",
                str(path),
                "--label",
                "class",
                "--delay",
                delay,
                *models,
                *report,
                "--json",
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        results = json.loads(completed.stdout)["results"]
        for result in results:
            figures = result["figures"]
            against = (result["against_champion"] or {}).get("verdict", "champion")
            rows.append({"delay": delay, "model": result["name"], **select_figures(figures), "against": against})
        baselines = results[0]["figures"]
        for name in ("no_change", "majority"):
            rows.append(
                {"delay": delay, "model": name.replace("_", "-"), "accuracy %": 100 * baselines[f"{name}_accuracy"]}
            )
    return rows


def select_figures(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "accuracy %": 100 * figures["accuracy"],
        "kappa": figures["kappa"],
        "kappa temporal": figures["kappa_temporal"],
    }


def print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    columns = [*dict.fromkeys(column for row in rows for column in row)]
    table(title, columns, [[row.get(column, "") for column in columns] for row in rows])


def measure(flags: Namespace) -> dict[str, list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = {
            "rate": lambda: rates(folder, flags.events),
            "peer": lambda: peers(folder, flags.events // 5),
            "start": lambda: starts(folder),
            "memory": lambda: memory(folder, flags.lines),
            "elec2": lambda: elec2(folder),
        }
        return {part: parts[part]() for part in PARTS if part in flags.parts.split(",")}


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--lines", type=int, default=10_000_000)
    flags = parser.parse_args()
    results = measure(flags)
    if flags.json:
        print_json(results)
        return 0
    for part, rows in results.items():
        print_rows(part, rows)
    if "rate" in results:
        print(
            f"the classifier, {RATE_TARGET:,.0f} events per core-second: {verdict(results['rate'][0]['per core-second'], RATE_TARGET, at_least=True)}"
        )
    if "memory" in results:
        print(f"the peak, {MEMORY_TARGET:,.0f} MB: {verdict(results['memory'][-1]['peak, MB'], MEMORY_TARGET)}")
    return 0


if __name__ == "__main__":
    command(run)
