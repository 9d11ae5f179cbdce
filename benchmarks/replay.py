"""How fast does a replay go, how much memory does it take, and what does it say of Elec2?

    python -m benchmarks.replay [--parts rate,memory,elec2] [--events 100000] [--lines 10000000] [--json]

rate: events a second of core time, from the file to the figures, each in a process of its own whose start counts. The
classifier reads JSONL of 64 numbers, the ranker a log of its own with its features in it, river's model JSONL of objects.
Models learn when 256 events are there to learn; the classifier, once more, at every event. memory: the peak of a process that replays so
many lines of JSONL. elec2: New South Wales' electricity prices (45,312 rows, ONLINE_SHARED_DATA), our best model beside
river's, with labels at once and a day (48 rows) late.
"""

import base64
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import command, parser, print_json, say, table, verdict
from benchmarks.service import Failed
from online.evaluation.log import header
from online.models import create
from online.settings import ModelSettings

REPLIES, WIDTH = 100, 384
TOGETHER = ("--every", "256")
PARTS = ("rate", "memory", "elec2")
RATE_BAR, MEMORY_BAR = 30_000.0, 1_000.0


def vectors(path: Path, count: int, numbers: int = 64) -> None:
    """Ten clouds of labelled points."""
    draw = np.random.default_rng(0)
    middles = draw.normal(0, 1, (10, numbers))
    with open(path, "w") as file:
        for _ in range(count):
            label = int(draw.integers(10))
            place = (middles[label] + draw.normal(0, 1.5, numbers)).round(3)
            file.write(json.dumps({"input": place.tolist(), "label": label}) + "\n")


def tables(path: Path, count: int) -> None:
    draw = np.random.default_rng(0)
    with open(path, "w") as file:
        for _ in range(count):
            x = draw.random(8).round(3)
            row = {f"x{place}": value for place, value in enumerate(x.tolist())}
            file.write(json.dumps({"input": row, "label": int(x[0] + x[1] > 1)}) + "\n")


def ranker_log(path: Path, count: int) -> None:
    """As a service would have logged it: replies, then a question, an answer and a thumb by turns, learned ten at a time."""
    spec = ModelSettings(name="chat", kind="ranker", options={})
    with open(path, "w") as file:
        told = REPLIES + count
        file.write(json.dumps(header(spec, {}, create("ranker", {}).feature_epoch(), count, told)) + "\n")
        for line in ranker_lines(count):
            file.write(json.dumps(line) + "\n")


def ranker_lines(count: int) -> Iterator[dict[str, Any]]:
    draw = np.random.default_rng(0)
    replies = draw.integers(-60, 60, (REPLIES, WIDTH), dtype=np.int8)
    blank = {"user": None, "at": None}
    for place, row in enumerate(replies):
        event = {
            "id": f"added:{place}#reply",
            "kind": "reply",
            "label": f"r{place}",
            "text": f"reply {place}",
            "reward": 1.0,
        }
        rest = {"choice": None, "target": None, "input": None, "features": base64.b64encode(row.tobytes()).decode()}
        yield {"told": {"offset": place + 1, **event, **rest, **blank}}
    for start in range(0, count, 10):
        batch = range(start, min(start + 10, count))
        chosen = draw.integers(REPLIES, size=len(batch))
        for turn, reply in zip(batch, chosen.tolist(), strict=True):
            asked = np.clip(replies[reply] + draw.normal(0, 20, WIDTH), -127, 127).astype(np.int8)
            answered = {
                "version": 1 + start // 10,
                "learned_until": REPLIES + start,
                "choice": f"r{reply}",
                "propensity": 1.0,
            }
            features = base64.b64encode(asked.tobytes()).decode()
            line: dict[str, Any] = {"id": str(turn), "input": None, "features": features, "told": 1, "candidates": []}
            yield {"asked": {**line, **answered, **blank}}
        for turn, reply in zip(batch, chosen.tolist(), strict=True):
            event = {"id": f"f{turn}", "kind": "reward", "label": f"r{reply}", "text": "", "reward": 1.0}
            rest = {"choice": f"r{reply}", "target": None, "about": str(turn)}
            yield {"told": {"offset": REPLIES + turn + 1, **event, **rest, **blank}}


def replayed(*arguments: str) -> tuple[dict[str, Any], float, float]:
    """`online replay` in a process: the first model's result, seconds of core time, MB at its peak."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    program = (
        "import resource, sys; from online.cli import main\ntry: main()\nfinally: "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    process = [sys.executable, "-c", program, "replay", *arguments, "--json"]
    done = subprocess.run(process, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise Failed(f"online replay ended with {done.returncode}: {done.stderr[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout)["results"][0], seconds, int(done.stderr.split()[-1]) / 1_000


def rates(folder: Path, events: int) -> list[dict[str, Any]]:
    made: Sequence[tuple[str, Callable[[Path, int], None], int, tuple[str, ...]]] = (
        ("classifier, 64 numbers", vectors, events, ("--model", "classifier", "--option", "scale=8.0", *TOGETHER)),
        ("the same, at every event", vectors, events // 20, ("--model", "classifier", "--option", "scale=8.0")),
        ("ranker, its features in the log", ranker_log, events // 5, ("--model", "ranker")),
        ("river's logistic regression", tables, events // 5, ("--model", "river", *TOGETHER)),
    )
    rows = []
    for place, (name, make, count, arguments) in enumerate(made):
        say(f"{name}: {count:,} events ...")
        path = folder / f"rate-{place}.jsonl"
        make(path, count)
        result, seconds, peak = replayed(str(path), *arguments)
        accuracy = 100 * (result["figures"]["accuracy"] or 0)
        rows.append(
            {
                "what": name,
                "events": result["events"],
                "a core-second": result["events"] / seconds,
                "MB": peak,
                "accuracy %": accuracy,
            }
        )
    return rows


def memory(folder: Path, lines: int) -> list[dict[str, Any]]:
    rows = []
    for count in (lines // 100, lines):
        say(f"memory: {count:,} lines ...")
        path = folder / "memory.jsonl"
        vectors(path, count, numbers=4)
        result, seconds, peak = replayed(str(path), "--model", "classifier", "--option", "scale=8.0", *TOGETHER)
        rows.append({"lines": count, "peak, MB": peak, "lines a core-second": result["events"] / seconds})
        path.unlink()
    return rows


def elec2(folder: Path) -> list[dict[str, Any]]:
    """Written beside the table: elec2-0.html and elec2-48.html in the current folder."""
    packed = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "elec2" / "electricity.csv.gz"
    found = packed if packed.exists() else next(iter(packed.parent.glob("*.csv.gz")), None)
    if found is None:
        raise Failed(f"there is no {packed}; say where the folder is that holds elec2 with ONLINE_SHARED_DATA")
    path = folder / "elec2.csv"
    path.write_bytes(gzip.decompress(found.read_bytes()))
    rows = []
    for delay in ("0", "48"):
        say(f"elec2, labels {delay} rows late ...")
        models = [
            flag
            for model in ("best_of", "logistic:drift=0.001,prior=10", "river:estimator=arf", "river:estimator=logistic")
            for flag in ("--model", model)
        ]
        report = ("--report", f"elec2-{delay}.html")
        done = subprocess.run(
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
        results = json.loads(done.stdout)["results"]
        for result in results:
            figures = result["figures"]
            against = (result["against_champion"] or {}).get("verdict", "champion")
            rows.append({"delay": delay, "model": result["name"], **chosen(figures), "against": against})
        baselines = results[0]["figures"]
        for name in ("no_change", "majority"):
            rows.append(
                {"delay": delay, "model": name.replace("_", "-"), "accuracy %": 100 * baselines[f"{name}_accuracy"]}
            )
    return rows


def chosen(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "accuracy %": 100 * figures["accuracy"],
        "kappa": figures["kappa"],
        "kappa temporal": figures["kappa_temporal"],
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0])
    table(title, columns, [[row.get(column, "") for column in columns] for row in rows])


def measured(flags: Namespace) -> dict[str, list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = {
            "rate": lambda: rates(folder, flags.events),
            "memory": lambda: memory(folder, flags.lines),
            "elec2": lambda: elec2(folder),
        }
        return {part: parts[part]() for part in PARTS if part in flags.parts.split(",")}


def run() -> int:
    made = parser(__doc__ or "")
    made.add_argument("--parts", default=",".join(PARTS))
    made.add_argument("--events", type=int, default=100_000)
    made.add_argument("--lines", type=int, default=10_000_000)
    flags = made.parse_args()
    found = measured(flags)
    if flags.json:
        print_json(found)
        return 0
    for part, rows in found.items():
        show(part, rows)
    if "rate" in found:
        print(
            f"the classifier, {RATE_BAR:,.0f} events a core-second: {verdict(found['rate'][0]['a core-second'], RATE_BAR, at_least=True)}"
        )
    if "memory" in found:
        print(f"the peak, {MEMORY_BAR:,.0f} MB: {verdict(found['memory'][-1]['peak, MB'], MEMORY_BAR)}")
    return 0


if __name__ == "__main__":
    command(run)
